"""Which requests met the service level objectives of their run."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.cells import MICRO
from tokenswarm.metrics import METRICS, Better, Kind
from tokenswarm.record import Outcome


def request_limits(slos: Mapping[str, Any] | None) -> dict[str, float]:
    """Metric → limit in base units, of those objectives that one request can meet or miss.

    `ttft`, `ttft_p95` and `ttft_mean` all limit `ttft` here; `error_ratio` and the like limit a step, not a request.
    """
    found: dict[str, float] = {}
    for name, limit in (slos or {}).items():
        metric = METRICS.get(re.sub(r"_(p\d+|mean|max)$", "", name))
        if metric is not None and metric.kind is Kind.REQUEST and metric.better is not None:
            found[metric.name] = float(limit)
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
