"""What a report says besides figures: conditions, errors, warnings, head line. Values as they came; nothing is escaped."""

import dataclasses
import datetime
import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import names
from analysis.health import REASON_SEPARATOR, Verdict
from analysis.printable import printable
from analysis.scale import Scale
from analysis.table import PLAIN
from analysis.wording import counted, users
from tokenswarm.metrics import METRICS
from tokenswarm.record import Outcome

COUNTED = (Outcome.FAILED, Outcome.EMPTY)


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A headline figure. `term`: what its "?" explains."""

    label: str
    value: str
    note: str
    term: str


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorKind:
    """Requests that failed in the same way; `example` is the server's or the system's words of one of them."""

    count: int
    error_class: str
    status: str
    example: str


def errors(requests: pd.DataFrame) -> list[ErrorKind]:
    """By class over the whole run, the commonest first."""
    bad = requests[requests.outcome.isin(COUNTED)]
    found = []
    for error, rows in bad.groupby(bad.error_class.fillna("unknown")):
        status = sorted({int(code) for code in rows.http_status.dropna()})
        words = rows.detail.dropna()
        found.append(
            ErrorKind(
                len(rows),
                printable(str(error)),
                ", ".join(map(str, status)),
                printable(str(words.mode().iloc[0])) if len(words) else "",
            )
        )
    return sorted(found, key=lambda kind: (-kind.count, kind.error_class))


def cautions(requests: pd.DataFrame) -> list[tuple[str, int]]:
    """Warnings of rows over the whole run, the commonest first."""
    words = requests.warnings.dropna().str.split().explode().dropna()
    return [(str(word), int(count)) for word, count in words.value_counts().items()]


def outcomes(requests: pd.DataFrame) -> str:
    """`412 ok, 3 failed`: of the whole run, those that occurred."""
    counts = {outcome: int((requests.outcome == outcome).sum()) for outcome in Outcome}
    return ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items() if count) or "none"


def verdicts(summary: pd.DataFrame) -> list[tuple[str, str, str, list[str]]]:
    """(verdict, step, users, reasons) of each step."""
    return [
        (
            str(row[names.VERDICT]),
            str(row[names.STEP]),
            str(row[names.TARGET_USERS]),
            [reason for reason in str(row[names.REASONS]).split(REASON_SEPARATOR) if reason],
        )
        for row in summary.to_dict("records")
    ]


def warning(summary: pd.DataFrame) -> str | None:
    """The first line of a report over an invalid step; None where there is none."""
    if not len(summary):
        return None
    bad = summary[summary[names.VERDICT] == Verdict.INVALID]
    if not len(bad):
        return None
    loads = counted(sorted(set(map(int, bad[names.TARGET_USERS]))))
    whole = "No step is valid evidence" if len(bad) == len(summary) else f"{len(bad)} of {len(summary)} steps invalid"
    return f"{whole} (at {loads}): do not rely on their figures; the verdicts say why."


def tiles(summary: pd.DataFrame, requests: pd.DataFrame) -> list[Tile]:
    """The figures that a reader looks for first; those of latency and throughput of believable steps only."""
    made = [Tile("Requests", f"{len(requests):,}", outcomes(requests), "sent")]
    usable = summary[summary[names.VERDICT] != Verdict.INVALID] if len(summary) else summary
    usable = usable[usable[names.OBSERVED_CONCURRENCY] > 0] if len(usable) else usable
    if not len(usable):
        return made
    usable = usable.sort_values(names.OBSERVED_CONCURRENCY)
    best = usable.iloc[int(usable[names.OUTPUT_TOKENS_PER_S].fillna(0).to_numpy().argmax())]
    made.append(
        Tile(
            f"{METRICS[names.OUTPUT_TOKENS_PER_S].label}, most",
            PLAIN.text(best[names.OUTPUT_TOKENS_PER_S]),
            f"at {people(best[names.TARGET_USERS])}",
            names.OUTPUT_TOKENS_PER_S,
        )
    )
    for metric in (names.TTFT, names.TPOT):
        tile = _from_to(usable, metric)
        made += [tile] if tile else []
    return made


def people(count: int) -> str:
    """`1 user`, `20 users`."""
    return users(int(count))


def _from_to(usable: pd.DataFrame, metric: str) -> Tile | None:
    """p95, or p50 where p95 is withheld, at the lowest and at the highest load."""
    for which in ("p95", "p50"):
        column = usable[names.stat(metric, which)]
        known = usable[column.notna()]
        if len(known):
            values = known[names.stat(metric, which)].iloc[[0, -1]]
            scale = Scale.of_seconds(values)
            users = known[names.TARGET_USERS].iloc[[0, -1]].tolist()
            texts = (
                list(dict.fromkeys(map(scale.text, values))) if users[0] != users[1] else [scale.text(values.iloc[0])]
            )
            note = f"at {users[0]} → {people(users[1])}" if users[0] != users[1] else f"at {people(users[0])}"
            return Tile(f"{METRICS[metric].label} {which}", f"{' → '.join(texts)} {scale.unit}", note, metric)
    return None


def conditions(info: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Name → value of what was measured under, the unknown ones (None) last."""
    scenario = info.get("scenario") or {}
    found: dict[str, Any] = {"target": info.get("target"), "model": info.get("model")}
    found |= info.get("conditions") or {}
    found |= {"scenario": scenario.get("name"), "steps": scenario.get("steps")}
    found |= {name: scenario.get(name) for name in ("step_time_s", "warmup_s")}
    found |= {f"SLO {name}": limit for name, limit in (info.get("slos") or {}).items()}
    said = [(str(name).replace("_", " "), _said(value)) for name, value in found.items()]
    return sorted(said, key=lambda pair: pair[1] is None)


def setup(info: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """The client's side: host, options, versions."""
    found = {name: info.get(name) for name in ("run_id", "host", "cores", "seed", "definitions_version")}
    found |= {f"option {name}": value for name, value in (info.get("options") or {}).items() if value not in ("", [])}
    found |= {f"version of {name}": value for name, value in (info.get("versions") or {}).items()}
    return [(str(name).replace("_", " "), _said(value)) for name, value in found.items()]


def _said(value: Any) -> str | None:
    if value is None or value in ("", {}, []):
        return None
    if isinstance(value, list) and all(isinstance(one, int | float | str) for one in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def moment(epoch_s: Any) -> str | None:
    """`2026-11-29 21:32 UTC`; None where the run does not say."""
    if not isinstance(epoch_s, int | float) or isinstance(epoch_s, bool):
        return None
    try:
        return datetime.datetime.fromtimestamp(epoch_s, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return None
