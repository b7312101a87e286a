// Everything on the page that is not a chart.
import { by, make, table } from "./dom.js";
import { bytes, clock, limit, NOTHING, number, ratio, span } from "./format.js";

const LATENCIES = ["ttft", "ttfo", "itl", "tpot", "e2e"];
const SERVER = {
  running: ["Running", number], waiting: ["Waiting", number], kv_cache_ratio: ["KV cache", ratio],
  preemptions_total: ["Preemptions", number], prompt_tokens_total: ["Prompt tokens", number],
  generation_tokens_total: ["Generated tokens", number], prefix_queries_total: ["Prefix cache: looked up", number], prefix_hits_total: ["Prefix cache: found", number],
};

export function words(told) {
  header(told);
  tiles(told);
  const { verdict, why } = told.health;
  by("verdict").className = `verdict ${told.run.is_over ? "" : verdict ?? ""}`;
  by("verdict").replaceChildren(make("b", "", told.run.is_over ? "Ended" : verdict ?? "Client"), `: ${told.run.is_over ? over(told) : why}`);
  steps(told);
  workers(told);
  table(by("server"), [null, ...(told.server ? Object.entries(SERVER).filter(([name]) => name in told.server).map(([name, [label, text]]) => [[label], [text(told.server[name])]]) : [[["It has no /metrics that is known here."]]])]);
  const classes = Object.entries(told.total.error_classes);
  table(by("classes"), [null, ...(classes.length ? classes.map(([name, count]) => [[name], [number(count)]]) : [[["None so far."]]])]);
  files(told);
}

function over(told) {
  const lost = told.workers.filter((worker) => worker.lost).map((worker) => worker.name);
  return lost.length ? `${lost.join(", ")} lost; the report judges every step` : "the report judges every step";
}

function header({ run, now, workers }) {
  by("title").textContent = run.run_id;
  document.title = `${run.run_id} – TokenSwarm live`;
  by("about").textContent = [run.model, run.target, run.scenario, run.is_over ? run.state : null].filter(Boolean).join(" · ");
  const users = now.users === now.target_users ? people(now.users) : `${now.users} of ${people(now.target_users)}`;
  const left = now.left ? (now.phase === "warm-up" ? `warming up, ${now.left}` : `${now.left} left`) : now.phase;
  by("phase").textContent = now.step ? `Step ${now.step} of ${now.steps}: ${users}, ${left}` : run.is_over ? `Ended after ${clock(run.ended_at - run.started_at)}: ${run.state}` : "Beginning";
  const lost = workers.filter((worker) => worker.lost).map((worker) => worker.name);
  const alarms = [run.failure, lost.length ? `Lost: worker ${lost.join(", ")}. Its requests in flight have no row; the steps from then on are invalid.` : null];
  if (now.lost_rows) alarms.push(`${now.lost_rows} rows could not be recorded.`);
  by("alarm").textContent = alarms.filter(Boolean).join(" ");
  by("alarm").hidden = !alarms.some(Boolean);
}

function tiles({ recent, total, run, server }) {
  const { ttft, itl } = recent.latencies;
  const shown = [
    ["TTFT p95", span(ttft.p95), `p50 ${span(ttft.p50)}`],
    ["ITL p95", span(itl.p95), `p50 ${span(itl.p50)}`],
    ["Output tokens/s", number(recent.output_tokens_per_s), `${number(recent.user_tokens_per_s)} per user`],
    ["In flight", number(recent.observed_concurrency), server?.waiting !== undefined ? `${number(server.waiting)} wait in the server` : ""],
    ["Requests/s", number(recent.requests_per_s), `${number(total.ok)} ok in all`],
    ["Errors", number(total.errors), `${ratio(recent.error_ratio)} lately · ${number(total.cancelled)} cancelled`],
    ["Truncated", ratio(total.truncated_ratio), "of answers, at the token limit"],
  ];
  by("tiles").replaceChildren(...(run.is_over ? shown.slice(5) : shown).map(([label, value, more]) => {
    const tile = make("div", "tile");
    tile.append(make("span", "", label), make("b", "", value), make("small", "", more));
    return tile;
  }));
}

function steps(told) {
  const quantile = (step, metric, which) => {
    const found = step.latencies?.[metric];
    return found ? [span(found[which]), found.n < told.least_n[which] ? "thin" : ""] : [NOTHING];
  };
  const withAnswer = told.steps.some((step) => step.latencies && step.latencies.ttfo.n && step.latencies.ttfo.p50 !== step.latencies.ttft.p50);
  const metrics = LATENCIES.filter((name) => name !== "ttfo" || withAnswer);
  const head = [["Users"], ["In flight"], ["Verdict", "words"], ...(told.slos.length ? [["Objectives", "words"]] : []), ...metrics.flatMap((name) => [[`${told.metrics[name].label} p50`], ["p95"], ["p99"]]), ["Tokens/s"], ["per user"], ["Requests/s"], ["Errors"], ["Truncated"]];
  table(by("steps"), [head, ...told.steps.map((step) => [
    [number(step.users)], [number(step.observed_concurrency)],
    [step.verdict ?? (step.ended ? "none" : "not begun"), `words level ${step.verdict ?? ""}`],
    ...(told.slos.length ? [objectives(told, step)] : []),
    ...metrics.flatMap((name) => ["p50", "p95", "p99"].map((which) => quantile(step, name, which))),
    [number(step.output_tokens_per_s)], [number(step.user_tokens_per_s)], [number(step.requests_per_s)], [ratio(step.error_ratio)], [ratio(step.truncated_ratio)],
  ])]);
  by("why").replaceChildren(...told.steps.filter((step) => step.verdict && step.verdict !== "valid").map((step) => make("li", "", `${people(step.users)}: ${step.why}.`)));
  by("answer").textContent = answer(told);
}

// Up to which load the steps so far kept to the objectives.
function answer(told) {
  const steps = told.steps.filter((step) => step.ended && (step.slos ?? []).length).sort((one, other) => one.users - other.users);
  const unsure = [];
  let good = null, end = "";
  for (const step of steps) {
    if (step.verdict === "invalid") { end = `The step of ${people(step.users)} is invalid.`; break; }
    if (step.slos.some((one) => one.met === false)) { end = `At ${people(step.users)} an objective is missed.`; break; }
    if (step.slos.some((one) => one.met === null)) unsure.push(number(step.users));
    else good = step.users;
  }
  return [
    good === null ? "" : `Every objective is met up to ${people(good)}.`, end,
    unsure.length ? `Too few samples to say at ${unsure.join(", ")} users.` : "",
  ].filter(Boolean).join(" ");
}

const people = (users) => `${number(users)} ${users === 1 ? "user" : "users"}`;

function objectives(told, step) {
  const missed = (step.slos ?? []).filter((one) => one.met === false).map((one) => one.name);
  if (!missed.length) return (step.slos ?? []).some((one) => one.met === null) ? ["too few samples", "words thin"] : step.slos ? ["met", "words met"] : [NOTHING, "words"];
  const said = missed.map((name) => `${name} ${limit(told.slos.find((one) => one.name === name))}`);
  return [`missed: ${said.join(", ")}`, "words missed"];
}

function workers(told) {
  const head = [["Worker"], ["CPU"], ["Users"], ["In flight"]];
  table(by("workers"), [head, ...told.workers.map((worker) => worker.lost
    ? [[worker.name], ["lost", "missed"], [NOTHING], [NOTHING]]
    : [[worker.name], [ratio(worker.cpu_ratio)], [number(worker.users)], [number(worker.in_flight)]])]);
}

let shownFiles = "";
function files({ files: found, run }) {
  by("report").hidden = !run.is_over;
  by("no-report").hidden = run.is_over;
  const key = JSON.stringify(found);
  if (key === shownFiles) return; // a link that is replaced under the pointer cannot be clicked
  shownFiles = key;
  by("files").replaceChildren(...found.map((file) => {
    const item = make("li"), link = make("a", "", file.name);
    link.href = `files/${encodeURIComponent(file.name)}`;
    item.append(link, " ", make("small", "", bytes(file.bytes)));
    return item;
  }));
}
