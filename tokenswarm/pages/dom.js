// Pieces of the page. Text is set as text, never as HTML: error classes and names come from elsewhere.
export const by = (id) => document.getElementById(id);

export function make(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

// cells: [text, class]… of each row. The first row is the head.
export function table(host, [head, ...rows]) {
  const line = (kind) => (cells) => {
    const row = make("tr");
    for (const [text, className = ""] of cells) row.append(make(kind, className, text));
    return row;
  };
  const parts = [];
  if (head) { const top = make("thead"); top.append(line("th")(head)); parts.push(top); }
  const body = make("tbody");
  body.append(...rows.map(line("td")));
  host.replaceChildren(...parts, body);
}

export function legend(host, entries) {
  host.replaceChildren(...entries.map(([name, className]) => {
    const entry = make("span", className);
    entry.append(make("i", "", name));
    return entry;
  }));
}
