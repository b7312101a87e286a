"""The law of the gate study: runs drawn by chance, kept as the gate keeps real ones.

Users in a closed loop, whose TTFT and TPOT follow a load of the server that is correlated in time (AR(1) in its logarithm),
times chance of heavy tails. Tokens of a request come evenly.
"""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from analysis import kept, names
from analysis.kept import StepKept
from analysis.resampling import CELLS, Samples
from analysis.stats import Ordered, smallest_n

GRID_S = 0.25  # of the server's load
START_S = 15.0  # the loop runs so long before the window begins
BUDGETS = "ttft_p95:+10%,tpot_p50:+5%"
TTFT_S, TPOT_S, TOKENS = 0.2, 0.030, 128  # medians
TTFT_LOAD, TTFT_CHANCE = 0.20, 0.20  # standard deviations of logarithms
PARETO_SHARE, PARETO_SHAPE = 0.02, 2.5  # so many requests wait a heavy-tailed multiple; its variance barely exists
TPOT_LOAD, TPOT_CHANCE, STUDENT_DF = 0.03, 0.02, 4
TOKENS_SIGMA = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row of the study. `ttft`, `tpot`: true factors of the second run; `correlation_s`: time in which the load's
    correlation falls to 1/e; `spread`: standard deviation of a run's own factor; `noise`: factor on all that varies within a
    run; `baselines`: runs of the baseline; `calibrated`: runs by which the spread was measured before, 0: it was not."""

    name: str
    ttft: float = 1.0
    tpot: float = 1.0
    budgets: str = BUDGETS
    users: int = 20
    window_s: float = 60.0
    correlation_s: float = 2.0
    spread: float = 0.0
    noise: float = 1.0
    baselines: int = 1
    calibrated: int = 0
    gates: int = 200
    most_failed: float = 1.0  # what must hold
    most_passed: float = 1.0


def load(random: np.random.Generator, runs: int, points: int, correlation_s: float) -> np.ndarray:
    """(runs, points): standard normal AR(1) on the grid."""
    keep = math.exp(-GRID_S / correlation_s)
    steps = random.standard_normal((points, runs)) * math.sqrt(1 - keep**2)
    found = np.empty((points, runs))
    found[0] = random.standard_normal(runs)
    for i in range(1, points):
        found[i] = keep * found[i - 1] + steps[i]
    return found.T


def runs(case: Case, random: np.random.Generator, count: int, ttft: float, tpot: float) -> Iterator[StepKept]:
    """`count` runs with the true factors `ttft` and `tpot`; all users of all runs take their next request together."""
    points = int((case.window_s + 2 * START_S) / GRID_S)
    of_ttft, of_tpot = (load(random, count, points, case.correlation_s) for _ in range(2))
    own = np.exp(case.spread * random.standard_normal((2, count, 1)))
    row = np.arange(count)[:, None]
    at = -START_S * random.random((count, case.users))
    drawn = []
    while (at < case.window_s).any():
        now = np.clip(((at + START_S) / GRID_S).astype(int), 0, points - 1)
        first = (
            TTFT_S * ttft * own[0] * np.exp(case.noise * (TTFT_LOAD * of_ttft[row, now] + _chance(random, at.shape)))
        )
        rate = np.exp(
            case.noise * (TPOT_LOAD * of_tpot[row, now] + TPOT_CHANCE * random.standard_t(STUDENT_DF, at.shape))
        )
        each = TPOT_S * tpot * own[1] * rate
        tokens = np.maximum(2, np.round(TOKENS * np.exp(TOKENS_SIGMA * random.standard_normal(at.shape))))
        drawn.append((at, first, each, tokens))
        at = at + first + each * (tokens - 1)
    whole = [np.stack(one, axis=1).reshape(count, -1) for one in zip(*drawn, strict=True)]
    for i in range(count):
        yield step(case, *(one[i] for one in whole))


def _chance(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    heavy = (random.random(shape) < PARETO_SHARE) * np.log1p(random.pareto(PARETO_SHAPE, shape))
    return np.asarray(TTFT_CHANCE * random.standard_normal(shape) + heavy)


def step(case: Case, at: np.ndarray, ttft: np.ndarray, tpot: np.ndarray, tokens: np.ndarray) -> StepKept:
    """What would be kept of a step. at, ttft, tpot: (requests,) in s. What is open when the window closes is censored."""
    arrived = _arrived(case, at, ttft, tpot, tokens)
    sent = (at >= 0) & (at < case.window_s)
    at, ttft, tpot, tokens = at[sent], ttft[sent], tpot[sent], tokens[sent]
    cell = np.minimum((at / case.window_s * CELLS).astype(int), CELLS - 1)
    end = at + ttft + tpot * (tokens - 1)
    is_open = end >= case.window_s
    decoding = np.maximum(case.window_s - at - ttft, 0.0)
    seen = np.where(is_open, decoding / (tokens - 1), tpot)
    samples = {
        names.TTFT: Samples(cell, ttft * 1e6, np.zeros(len(at), bool)),
        names.TPOT: Samples(cell, seen * 1e6, is_open),
    }
    enough = len(at) >= smallest_n(0.95)
    figures = {
        "ttft_p95": float(np.quantile(ttft, 0.95)) if enough else math.nan,
        "tpot_p50": Ordered(seen, is_open).percentile(0.5).value,
        names.OUTPUT_TOKENS_PER_S: float(arrived.sum()) / case.window_s,
    }
    return StepKept(
        users=case.users,
        nth=1,
        window_s=case.window_s,
        request_s=float(np.median(end - at)),
        verdict="valid",
        client_verdict="valid",
        reasons="",
        withheld="",
        figures=figures,
        counts={kept.OUTPUT_TOKENS: arrived},
        samples={name: kept.thinned(one) for name, one in samples.items()},
    )


def _arrived(case: Case, at: np.ndarray, ttft: np.ndarray, tpot: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """(CELLS,): tokens that arrived in each cell of the window, whoever sent the request when."""
    count = tokens.astype(int)
    nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    arrival = np.repeat(at + ttft, count) + nth * np.repeat(tpot, count)
    inside = arrival[(arrival >= 0) & (arrival < case.window_s)]
    return np.bincount((inside / case.window_s * CELLS).astype(int), minlength=CELLS)[:CELLS].astype(float)
