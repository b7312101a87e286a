"use strict";
// Draws the plots from the JSON in the page, in the colours of the reader's system, and lets the legends switch lines.
(() => {
  const read = (id) => document.getElementById(id).textContent;
  const swaps = JSON.parse(read("plot-colors"));
  const back = Object.fromEntries(Object.entries(swaps).map(([light, dark]) => [dark, light]));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  const models = () => Bokeh.documents.flatMap((one) => [...one._all_models.values()]);

  function recolor(isDark) {
    const table = isDark ? swaps : back;
    for (const model of models())
      for (const [name, value] of Object.entries(model.attributes))
        if (name.endsWith("_color")) {
          const plain = value && typeof value === "object" && "value" in value ? value.value : value;
          if (typeof plain === "string" && table[plain])
            model.setv({[name]: plain === value ? table[plain] : {value: table[plain]}});
        }
    root.classList.toggle("dark", isDark);
  }

  async function draw() {
    let text = read("plot-documents");
    if (system.matches) text = text.replace(/#[0-9a-f]{6}(?=")/gi, (color) => swaps[color] ?? color);
    root.classList.toggle("dark", system.matches);
    await Bokeh.embed.embed_items(JSON.parse(text), JSON.parse(read("plot-places")));
    root.dataset.plots = "drawn";
    system.addEventListener("change", (event) => recolor(event.matches));
  }

  for (const button of document.querySelectorAll(".legend button"))
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const model of models())
        if (model.tags?.includes(button.dataset.tag) && "visible" in model.attributes) model.visible = shown;
    });

  // Paper: a plot keeps the size it has on the screen, so each is printed as a picture that may shrink.
  addEventListener("beforeprint", () => {
    for (const view of Object.values(Bokeh.index.roots ?? Bokeh.index)) {
      const place = document.getElementById(view.model.name);
      if (place && !place.querySelector("canvas.copy")) {
        const copy = view.export("png", true).canvas;
        copy.className = "copy";
        place.append(copy);
      }
    }
  });
  addEventListener("afterprint", () => document.querySelectorAll("canvas.copy").forEach((copy) => copy.remove()));

  if (document.getElementById("plot-documents"))
    draw().catch((error) => {
      root.dataset.plots = "failed";
      console.error(error);
    });
})();
