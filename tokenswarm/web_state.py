"""What the live page is told once a second: plain data, no text of the server's, no secret."""

from typing import TYPE_CHECKING, Any

from tokenswarm.format import clock
from tokenswarm.live_figures import LEAST_N, SHOWN, health, objectives, of_recent, of_step, of_tally
from tokenswarm.live_tally import CPU, IN_FLIGHT, ROWS, USERS
from tokenswarm.live_timeline import COLUMNS
from tokenswarm.metrics import METRICS
from tokenswarm.servers import COLUMNS as SERVER_COLUMNS
from tokenswarm.web_files import listed

if TYPE_CHECKING:
    from tokenswarm.running import Run


def state(run: "Run | None", run_id: str, generation: int, rows: int) -> dict[str, Any]:
    """Of `run` for a page that has the first `rows` rows of `generation` of the timeline of `run_id`."""
    if run is None:
        return {"run": None}
    is_same = run_id == run.folder.run_id
    first, timeline = run.history.since(generation if is_same else -1, rows)
    level, why = health(run)
    return {
        "run": about(run),
        "now": present(run),
        "recent": of_recent(run),
        "total": of_tally(run.live.total),
        "health": {"verdict": level, "why": why},
        "server": server(run),
        "workers": workers(run),
        "steps": [of_step(run, run.steps[number]) for number in sorted(run.steps)],
        "slos": objectives(run),
        "metrics": {name: {"label": METRICS[name].label, "text": METRICS[name].text} for name in SHOWN},
        "least_n": LEAST_N,
        "timeline": {"columns": COLUMNS, "generation": run.history.generation, "first": first, "rows": timeline},
        "files": listed(run.folder.path),
    }


def about(run: "Run") -> dict[str, Any]:
    info = run.info()
    names = ("run_id", "started_at", "ended_at", "state", "target", "model")
    return {name: info[name] for name in names} | {
        "scenario": info["scenario"]["name"],
        "planned_steps": info["scenario"]["steps"],
        "is_over": run.is_over,
        "failure": run.failure,
    }


def present(run: "Run") -> dict[str, Any]:
    """Where the run is; empty before its first step."""
    progress = run.progress
    if progress is None or run.is_over:
        return {}
    return {
        "phase": progress.phase.value,
        "step": progress.step,
        "steps": progress.steps,
        "users": progress.users,
        "target_users": progress.target_users,
        "left": None if progress.left_s is None else clock(progress.left_s),
        "lost_rows": progress.lost_rows,
    }


def server(run: "Run") -> dict[str, float] | None:
    """What the server says of itself, all targets together; None where it says nothing."""
    if run.server is None or not run.server.latest:
        return None
    values = {name: run.server.total(name) for name in SERVER_COLUMNS[2:]}
    return {name: value for name, value in values.items() if value is not None}


def workers(run: "Run") -> list[dict[str, Any]]:
    """Every process with users, as it was over the last seconds."""
    told = run.live.recent().health
    found = []
    for name in sorted(told.keys() | run.in_flight.keys() | run.lost.keys()):
        sums = told.get(name)
        mean = {key: sums[key] / sums[ROWS] for key in (CPU, USERS, IN_FLIGHT)} if sums else {}
        found.append({"name": name, "lost": name in run.lost, **mean})
    return found
