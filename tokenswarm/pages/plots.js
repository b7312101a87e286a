// The page's charts, from what the master tells.
import { draw } from "./chart.js";
import { by, legend, make } from "./dom.js";
import { clock, limit, number, span } from "./format.js";

const CHOICES = ["ttft", "itl", "tpot", "e2e"];
const WHICH = ["p50", "p95", "p99"];
let chosen = "ttft";

export function drawAll(told) {
  choices(told);
  curve(told);
  timelines(told);
}

function choices(told) {
  if (!by("choice").children.length) {
    by("choice").append(...CHOICES.map((name) => {
      const button = make("button", "", told.metrics[name].label);
      button.type = "button";
      button.title = told.metrics[name].text;
      button.addEventListener("click", () => { chosen = name; });
      return button;
    }));
  }
  [...by("choice").children].forEach((button, index) => button.setAttribute("aria-pressed", String(CHOICES[index] === chosen)));
}

function curve(told) {
  const steps = told.steps.filter((step) => step.latencies && step.observed_concurrency !== null).sort((one, other) => one.observed_concurrency - other.observed_concurrency);
  const hollow = new Set(steps.flatMap((step, index) => (step.ended ? [] : [index])));
  const xTicks = ticksOf(told, steps);
  const limits = told.slos.filter((one) => one.metric === chosen).map((one) => ({ y: one.limit, name: `${one.statistic} ≤ ${limit(one)}` }));
  const xText = (value) => `${number(value)} in flight`;
  const series = WHICH.map((which) => ({ name: which, cls: which, dots: true, hollow, points: steps.map((step) => [step.observed_concurrency, step.latencies[chosen][which]]) }));
  draw(by("curve"), { series, limits, xTicks, xText, yText: span, xName: "requests in flight" });
  by("curve").dataset.points = steps.filter((step) => step.latencies[chosen].p95 !== null).length;
  legend(by("curve-legend"), [...WHICH.map((which) => [which, which]), ...(limits.length ? [["objective", "bad"]] : [])]);
  const rate = told.slos.filter((one) => one.metric === "output_tokens_per_s").map((one) => ({ y: one.limit, name: `≥ ${limit(one)}` }));
  const tokens = [{ name: "tokens/s", cls: "total", dots: true, hollow, points: steps.map((step) => [step.observed_concurrency, step.output_tokens_per_s]) }];
  draw(by("throughput"), { series: tokens, limits: rate, xTicks, xText, yText: number, xName: "requests in flight" });
}

// A tick for each step that has a point, and for each that is planned.
function ticksOf(told, steps) {
  const planned = told.run.planned_steps.filter((users) => !steps.some((step) => step.users === users));
  return [...steps.map((step) => [step.observed_concurrency, number(step.observed_concurrency)]), ...planned.map((users) => [users, number(users)])].sort((one, other) => one[0] - other[0]);
}

function timelines(told) {
  const { columns, rows } = told.timeline;
  const index = Object.fromEntries(columns.map((name, at) => [name, at]));
  const column = (name) => rows.map((row) => [row[index.at_s] - told.run.started_at, row[index[name]]]);
  const marks = rows.flatMap((row, at) => (at && row[index.step] !== rows[at - 1][index.step] ? [row[index.at_s] - told.run.started_at] : []));
  const line = (host, series, yText, limits = []) => draw(by(host), { series, marks, limits, xText: clock, yText });
  for (const metric of ["ttft", "itl"]) {
    const limits = told.slos.filter((one) => one.metric === metric).map((one) => ({ y: one.limit, name: `${one.statistic} ≤ ${limit(one)}` }));
    line(metric, WHICH.map((which) => ({ name: which, cls: which, points: column(`${metric}_${which}`) })), span, limits);
  }
  line("tokens", [{ name: "tokens/s", cls: "total", points: column("tokens_per_s") }], number);
  const flight = [["in flight", "p50", "in_flight"], ["users", "users", "users"], ["server: running", "total", "running"], ["server: waiting", "p99", "waiting"]]
    .map(([name, cls, from]) => ({ name, cls, points: column(from), stepped: from === "users" })).filter((one) => one.points.some((point) => point[1] !== null));
  line("flight", flight, number);
  legend(by("flight-legend"), flight.map((one) => [one.name, one.cls]));
  const errors = column("errors");
  const perSecond = errors.map(([at, count], row) => [at, row && at > errors[row - 1][0] ? Math.max(0, count - errors[row - 1][1]) / (at - errors[row - 1][0]) : null]);
  draw(by("errors"), { series: [{ name: "errors/s", cls: "bad", points: perSecond }], marks, xText: clock, yText: number, yTop: 1 });
}
