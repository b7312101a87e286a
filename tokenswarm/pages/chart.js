// Line charts in plain SVG. Text goes in as text nodes only.
const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 58, right: 14, top: 12, bottom: 34 };

export function element(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

// Round numbers that cover [0, top], about `wanted` of them.
export function ticks(low, high, wanted) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const every = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough) ?? 10 * power;
  const found = [];
  for (let at = Math.ceil(low / every) * every; at <= high + every * 1e-9; at += every) found.push(Number(at.toPrecision(12)));
  return found;
}

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

// Draws into `host`. series: [{name, cls, points: [[x, y]…], dots, hollow: Set of indices, stepped}], y null leaves a gap.
// limits: [{y, name}]; marks: [x…]; xTicks: [[x, label]…] or none; xText, yText: formats; xName: axis label.
export function draw(host, { series, limits = [], marks = [], xTicks = null, xText, yText, xName = "", yTop = 0 }) {
  const width = host.clientWidth, height = host.clientHeight;
  if (!width || !height) return;
  const ys = series.flatMap((one) => one.points.map((point) => point[1])).filter(known);
  const xs = series.flatMap((one) => one.points.map((point) => point[0])).filter(known);
  const highest = Math.max(...ys, yTop, 0);
  const shownLimits = limits.filter((one) => !ys.length || one.y < highest * 4);
  const top = Math.max(highest, ...shownLimits.map((one) => one.y), 1e-9) * 1.08;
  let [low, high] = xs.length ? [Math.min(...xs), Math.max(...xs)] : [0, 1];
  if (xTicks) [low, high] = [Math.min(0, low), Math.max(high, ...xTicks.map(([at]) => at)) * 1.04];
  if (high <= low) high = low + 1;
  const x = (value) => MARGIN.left + ((value - low) / (high - low)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - (value / top) * (height - MARGIN.top - MARGIN.bottom);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  axes(svg, { x, y, low, high, top, width, height, xTicks, xText, yText, xName });
  for (const at of marks) if (at > low && at < high) element(svg, "line", { class: "step", x1: x(at), x2: x(at), y1: MARGIN.top, y2: height - MARGIN.bottom });
  for (const one of shownLimits) {
    element(svg, "line", { class: "limit", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(one.y), y2: y(one.y) });
    element(svg, "text", { class: "limit-name", x: width - MARGIN.right, y: y(one.y) - 5, "text-anchor": "end" }, one.name);
  }
  for (const one of series) lines(svg, one, x, y);
  host.querySelector("svg")?.remove();
  host.prepend(svg);
  host.chart = { series, x, y, xText, yText, width, svg, height };
  hover(host);
}

function axes(svg, { x, y, low, high, top, width, height, xTicks, xText, yText, xName }) {
  for (const at of ticks(0, top, 4)) {
    element(svg, "line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(at), y2: y(at) });
    element(svg, "text", { x: MARGIN.left - 8, y: y(at) + 4, "text-anchor": "end" }, yText(at));
  }
  element(svg, "line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(0), y2: y(0) });
  let free = -Infinity;
  for (const [at, label] of xTicks ?? ticks(low, high, Math.max(2, Math.floor(width / 110))).map((at) => [at, xText(at)])) {
    const half = label.length * 3.6;
    if (x(at) - half < free) continue;
    free = x(at) + half + 8;
    element(svg, "text", { x: x(at), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, label);
  }
  if (xName) element(svg, "text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 3, "text-anchor": "middle" }, xName);
}

function lines(svg, { cls, points, dots, hollow, stepped }, x, y) {
  let path = "", open = false, last = 0;
  for (const [at, value] of points) {
    if (!known(at) || !known(value)) { open = false; continue; }
    if (open && stepped) path += `H${x(at).toFixed(1)}V${y(value).toFixed(1)}`;
    else path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    open = true;
    last += 1;
  }
  element(svg, "path", { class: `series ${cls}`, d: path });
  if (!dots && last !== 1) return;
  points.forEach(([at, value], index) => {
    if (known(at) && known(value)) element(svg, "circle", { class: `${cls}${hollow?.has(index) ? " now" : ""}`, cx: x(at), cy: y(value), r: 4.5 });
  });
}

// One tooltip for a chart: the values at the x nearest to the pointer.
function hover(host) {
  if (host.hasHover) return;
  host.hasHover = true;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  host.append(tip);
  const leave = () => { tip.hidden = true; host.querySelector(".hair")?.remove(); };
  host.addEventListener("pointerleave", leave);
  host.addEventListener("pointermove", (event) => {
    const { series, x, yText, xText, width, svg, height } = host.chart;
    const at = event.clientX - host.getBoundingClientRect().left;
    const all = series.flatMap((one) => one.points.filter((point) => known(point[0]) && known(point[1])).map((point) => point[0]));
    leave();
    if (!all.length) return;
    const nearest = all.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best));
    const rows = series.map((one) => [one.name, one.points.find((point) => point[0] === nearest)?.[1]]).filter(([, value]) => known(value));
    tip.replaceChildren(...[[xText(nearest), ""], ...rows.map(([name, value]) => [name, yText(value)])].map(([name, value]) => {
      const line = document.createElement("div");
      for (const text of [name, value]) line.append(Object.assign(document.createElement("span"), { textContent: text }));
      return line;
    }));
    element(svg, "line", { class: "hair", x1: x(nearest), x2: x(nearest), y1: MARGIN.top, y2: height - MARGIN.bottom });
    tip.hidden = false;
    tip.style.left = `${Math.max(0, Math.min(x(nearest) + 10, width - tip.offsetWidth))}px`;
  });
}
