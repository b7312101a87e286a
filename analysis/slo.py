"""Service level objectives: which requests met those of their run, and which columns of the summary they limit."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.cells import MICRO
from tokenswarm import slo
from tokenswarm.metrics import METRICS, Better, Kind, Metric
from tokenswarm.record import Outcome
from tokenswarm.usage_error import UsageError


@dataclasses.dataclass(frozen=True, slots=True)
class Objective:
    """A limit on one figure of a step."""

    name: str  # as in the option: ttft_p95
    limit: float  # base units
    metric: Metric
    statistic: str | None  # None: one figure a step

    def column(self, bound: str = "", statistic: str | None = None) -> str:
        """The summary's column of the figure, of an end of its interval, or of another statistic of its metric."""
        which = statistic or self.statistic
        if which is not None:
            return names.stat(self.metric.name, which, bound)
        return names.stat(self.metric.name, bound) if bound else self.metric.name

    def excess(self, value: float) -> float:
        """How far `value` is beyond the limit, in the metric's unit; 0 or less is within."""
        return value - self.limit if self.metric.better is Better.LOWER else self.limit - value

    def milder(self) -> list[str]:
        """Statistics that are never worse than this one, the worst first: of p99 these are p95, p50."""
        order = list(names.QUANTILES if self.metric.better is Better.LOWER else names.SLOW_QUANTILES)
        return order[: order.index(self.statistic)][::-1] if self.statistic in order else []


def objectives(slos: Mapping[str, Any] | None) -> tuple[list[Objective], list[str]]:
    """Objectives that a step's figures can meet or miss, by name; and the names of those that no figure stands for."""
    found, unknown = [], []
    for name, limit in sorted((slos or {}).items()):
        try:
            limited = slo.limited(name)
        except UsageError:
            unknown.append(name)
        else:
            found.append(Objective(name, float(limit), limited.metric, limited.statistic))
    return found, unknown


def request_limits(slos: Mapping[str, Any] | None) -> dict[str, float]:
    """Metric → limit in base units, of those objectives that one request can meet or miss.

    `ttft`, `ttft_p95` and `ttft_mean` all limit `ttft` here, the strictest counts; `error_ratio` and the like limit a
    step, not a request.
    """
    found: dict[str, float] = {}
    for name, limit in (slos or {}).items():
        metric = METRICS.get(re.sub(r"_(p\d+|mean|max)$", "", name))
        if metric is not None and metric.kind is Kind.REQUEST and metric.better is not None:
            strictest = min if metric.better is Better.LOWER else max
            found[metric.name] = strictest(float(limit), found.get(metric.name, float(limit)))
    return found


def met(requests: pd.DataFrame, limits: Mapping[str, float]) -> np.ndarray:
    """Whether each request (as of `steady.derive`) is ok and within every limit.

    An answer of one token has no TPOT and cannot miss it; any other metric that does not exist was not shown to be met.
    """
    values = {
        names.TTFT: requests.ttft_us / MICRO,
        names.TTFO: requests.ttfo_us / MICRO,
        names.E2E: requests.e2e_us / MICRO,
        names.TPOT: (requests.tpot_us / MICRO).mask(requests.output_tokens < 2, 0.0),
        names.USER_TOKENS_PER_S: (MICRO / requests.tpot_us).mask(requests.output_tokens < 2, np.inf),
    }
    good = requests.outcome == Outcome.OK
    for name, limit in limits.items():
        better = METRICS[name].better
        good &= values[name] <= limit if better is Better.LOWER else values[name] >= limit
    return good.to_numpy(dtype=bool)
