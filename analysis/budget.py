"""Budgets: how much worse a figure may become. `ttft_p95:+10%|5ms,output_tokens_per_s:-5%,error_ratio:+1pp`.

The sign is the bad side and can be left out. A percentage has an absolute floor beside it: +10 % of 2 ms is nothing. After
"|" a floor of one's own can be given.
"""

import dataclasses
import enum
import math
import re

from analysis.gate_errors import GateUsage
from analysis.quality_metrics import QUALITY
from tokenswarm.metrics import METRICS, Better, Kind, Metric
from tokenswarm.slo import names as figure_names
from tokenswarm.slo import statistics

DEFAULT = "ttft_p95:+10%,tpot_p50:+5%,output_tokens_per_s:-5%,error_ratio:+1pp"
EXAMPLE = "ttft_p95:+10%"
QUALITY_DEFAULT = (
    "quality_similarity:-20pp,quality_valid_json:-5pp,quality_as_expected:-5pp,quality_length_ratio:-30%,"
    "quality_truncated:+10pp,quality_empty:+5pp,quality_refused:+5pp"
)
RATIO, SECONDS = "ratio", "s"
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_SIZE = re.compile(r"([+-]?)\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(\S*)")
_FLOOR = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(\S*)")

# Seconds below which a change of a time is nobody's concern; of the time of a token they add up over an answer.
FLOOR_S = {"ttft": 0.003, "ttfo": 0.003, "e2e": 0.010, "itl": 0.0003, "itl_per_token": 0.0003, "tpot": 0.0002}


class Form(enum.StrEnum):
    """How a budget's size is meant."""

    PERCENT = "%"
    POINTS = "pp"  # of a share: 1 pp is 0.01
    AMOUNT = "amount"  # in the metric's base unit


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """`size` and `floor` are positive, in shares (%, pp) or base units, and towards the bad side."""

    name: str  # of the figure: ttft_p95
    metric: Metric
    statistic: str | None
    form: Form
    size: float
    floor: float = 0.0  # base units; only beside a percentage

    @property
    def sign(self) -> int:
        """Times a change: positive is worse."""
        return 1 if self.metric.better is Better.LOWER else -1

    @property
    def is_quality(self) -> bool:
        return self.metric.name in QUALITY

    def __str__(self) -> str:
        mark = "+" if self.sign > 0 else "-"
        if self.form is Form.AMOUNT:
            return f"{self.name}:{mark}{_amount(self.size, self.metric)}"
        has_own = self.metric.name in FLOOR_S  # a floor that was set to nothing is said too
        floor = f"|{_amount(self.floor, self.metric)}" if self.floor or has_own else ""
        return f"{self.name}:{mark}{self.size * 100:.4g}{self.form}{floor}"


def _amount(value: float, metric: Metric) -> str:
    return f"{value * 1000:.4g}ms" if metric.unit == SECONDS else f"{value:.4g}"


def parse(text: str) -> list[Budget]:
    """The budgets in `text`, in its order. Raises GateUsage naming the one that cannot be understood."""
    found: dict[str, Budget] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        budget = parse_one(part.strip())
        if budget.name in found:
            raise GateUsage(f"BUDGET: {budget.name} has two budgets, {found[budget.name]} and {budget}; keep one")
        found[budget.name] = budget
    if not found:
        raise GateUsage(f"BUDGET: '{text}' names no figure; write it like {EXAMPLE}")
    return list(found.values())


def parse_one(text: str) -> Budget:
    name, colon, rest = (part.strip() for part in text.partition(":"))
    if not colon or not rest:
        raise GateUsage(f"BUDGET: '{text}' must look like FIGURE:CHANGE, for example {EXAMPLE}")
    metric, statistic = figure(name)
    change, bar, floor = (part.strip() for part in rest.partition("|"))
    size = _SIZE.fullmatch(change.replace("\N{MINUS SIGN}", "-"))
    if size is None or not math.isfinite(float(size[2])):
        raise GateUsage(
            f"BUDGET {name}: '{change}' is no change; write a sign, a number and a unit, like {_like(metric)}"
        )
    if size[1] and (size[1] == "+") != (metric.better is Better.LOWER):
        worse = "rises" if metric.better is Better.LOWER else "falls"
        raise GateUsage(
            f"BUDGET {name}: {metric.label} is worse when it {worse}, so its budget is written like {_like(metric)}, "
            f"not '{change}'"
        )
    number, unit = float(size[2]), size[3].lower()
    form, value = _form(name, metric, number, unit)
    least = FLOOR_S.get(metric.name, 0.0) if form is Form.PERCENT else 0.0
    if bar:
        least = _floor(name, metric, form, floor)
    return Budget(name, metric, statistic, form, value, least)


def figure(name: str) -> tuple[Metric, str | None]:
    """Metric and statistic of the figure called `name`. Raises GateUsage where it has no good and bad side, or is none."""
    if name in QUALITY:
        return QUALITY[name], None
    metric, _, which = name.rpartition("_")
    if name in figure_names() and which != "mean":
        return (METRICS[name], None) if name in METRICS else (METRICS[metric], which)
    if which == "mean" and metric in METRICS:
        raise GateUsage(f"BUDGET: a gate on {name} would hang on a few long requests; use {metric}_p50 or {metric}_p95")
    known = METRICS.get(name)
    if known is not None and known.kind is not Kind.STEP and known.better is not None:
        choices = ", ".join(f"{name}_{one}" for one in statistics(known) if one != "mean")
        raise GateUsage(f"BUDGET: which {known.label}? There are {choices}")
    if known is not None:
        raise GateUsage(f"BUDGET: {known.label} has no good and bad side; it cannot be gated")
    choices = ", ".join([*(one for one in figure_names() if not one.endswith("_mean")), *QUALITY])
    raise GateUsage(f"BUDGET: there is no figure '{name}'; there are {choices}")


def _form(name: str, metric: Metric, number: float, unit: str) -> tuple[Form, float]:
    if unit == "%" and metric.unit == RATIO and name not in ("quality_length_ratio",):
        raise GateUsage(
            f"BUDGET {name}: a change of a share is in percentage points, like {_like(metric)}; % of it could mean either"
        )
    if unit == "%":
        if metric.better is Better.HIGHER and number >= 100:
            raise GateUsage(f"BUDGET {name}: -{number:g}% leaves nothing to be judged; write less than 100%")
        return Form.PERCENT, number / 100
    if unit == "pp" and metric.unit == RATIO:
        return Form.POINTS, number / 100
    if metric.unit == SECONDS and unit in _UNITS:
        return Form.AMOUNT, number * _UNITS[unit]
    if metric.unit not in (SECONDS, RATIO) and unit in ("", metric.unit.lower()):
        return Form.AMOUNT, number
    said = f"'{unit}' is no unit of {metric.label}" if unit else "a unit is missing"
    raise GateUsage(f"BUDGET {name}: {said}; write it like {_like(metric)}")


def _floor(name: str, metric: Metric, form: Form, text: str) -> float:
    size = _FLOOR.fullmatch(text)
    if form is not Form.PERCENT:
        raise GateUsage(f"BUDGET {name}: a floor ('|{text}') stands beside a percentage only")
    factor = None
    if size is not None and metric.unit == SECONDS:
        factor = _UNITS.get(size[2].lower())
    elif size is not None and metric.unit != RATIO:
        factor = 1.0 if size[2] == "" else None
    if size is None or factor is None:
        like = f"{'+' if metric.better is Better.LOWER else '-'}10%|{'5ms' if metric.unit == SECONDS else '10'}"
        raise GateUsage(f"BUDGET {name}: '{text}' is no floor; write it like {name}:{like}")
    return float(size[1]) * factor


def _like(metric: Metric) -> str:
    sign = "+" if metric.better is Better.LOWER else "-"
    if metric.unit == RATIO:
        return f"{sign}1pp"
    return f"{sign}10% or {sign}{'20ms' if metric.unit == SECONDS else '50'}"


def log_limit(budget: Budget, base: float) -> float:
    """The largest harm that is within the budget, as a change of the logarithm of a figure that is `base`."""
    if budget.form is Form.AMOUNT:
        share = budget.size / base
    else:
        share = max(budget.size, budget.floor / base)
    if budget.sign > 0:
        return math.log1p(share)
    return -math.log1p(-share) if share < 1 else math.inf
