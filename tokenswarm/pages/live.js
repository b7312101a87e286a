// The live page: asks once a second what is new and draws it. The history is the master's: a reload loses nothing.
import { by } from "./dom.js";
import { drawAll } from "./plots.js";
import { words } from "./words.js";

const EVERY_MS = 1000;
let known = { run: "", generation: -1, rows: [] };
let last = null;

function merge(told) {
  const { generation, first, rows, columns } = told.timeline;
  if (told.run.run_id !== known.run || generation !== known.generation || first > known.rows.length) known.rows = [];
  known = { run: told.run.run_id, generation, rows: [...known.rows.slice(0, first), ...rows] };
  return { ...told, timeline: { columns, rows: known.rows } };
}

async function ask() {
  const query = new URLSearchParams({ run: known.run, generation: known.generation, rows: known.rows.length });
  const response = await fetch(`now?${query}`, { cache: "no-store" });
  if (response.redirected) return location.reload(); // to log in
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  const told = await response.json();
  by("figures").hidden = told.run === null;
  if (told.run === null) return undefined;
  last = merge(told);
  words(last);
  drawAll(last);
  return undefined;
}

async function live() {
  for (;;) {
    try {
      if (!document.hidden) await ask();
      document.body.classList.remove("gone");
      if (by("alarm").dataset.gone) { by("alarm").hidden = true; delete by("alarm").dataset.gone; }
    } catch {
      by("alarm").hidden = false;
      by("alarm").dataset.gone = "1";
      by("alarm").textContent = "Locust does not answer: it has ended, or is busy. What is shown is the last that was heard.";
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
  }
}

new ResizeObserver(() => last && drawAll(last)).observe(document.body);
by("choice").addEventListener("click", () => last && drawAll(last));
live();
