"""Sketches of latencies that merge (DDSketch): as plain data, with many gaps added at once, and with open samples.

Of an open sample only a lower bound is known: its request had not ended when the window closed, or we stopped it. The
Kaplan-Meier distribution stands for them, as in the report, so that a slow server's figures are not flattered.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ddsketch import DDSketch

from tokenswarm.long_work import Breathe, hold_breath, parts
from tokenswarm.metrics import itl_us

ACCURACY = 0.005  # relative, of every quantile
TABLE_US = 1 << 16  # gaps below it find their bin in a table: a tenth of the time that a logarithm takes
ROUNDING = 1e-12


def new_sketch() -> DDSketch:
    return DDSketch(ACCURACY)


_bin_of_s = new_sketch()._mapping.key  # seconds → bin: the same for all sketches


def sketch_to_dict(sketch: DDSketch) -> dict[str, Any]:
    """All that `sketch` knows: filled bins as [key, count], so that `sketch_from_dict` makes its equal."""
    empty = sketch.count == 0
    return {
        "bins": _filled(sketch._store),
        "negative": _filled(sketch._negative_store),
        "zero": sketch._zero_count,
        "sum": sketch._sum,
        "min": None if empty else sketch._min,
        "max": None if empty else sketch._max,
    }


def _filled(store: Any) -> list[tuple[int, float]]:
    return [(store.offset + index, held) for index, held in enumerate(store.bins) if held]


def sketch_from_dict(held: dict[str, Any]) -> DDSketch:
    sketch = new_sketch()
    for store, bins in ((sketch._store, held["bins"]), (sketch._negative_store, held["negative"])):
        for key, number in bins:
            store.add(key, number)
    if held["min"] is not None:
        sketch._zero_count, sketch._sum = held["zero"], held["sum"]
        sketch._min, sketch._max = held["min"], held["max"]
        sketch._count = sketch._store.count + sketch._negative_store.count + sketch._zero_count
    return sketch


@functools.cache
def _table() -> list[int | None]:
    """Whole µs → bin; None for 0. Made once, before the load: it takes some 50 ms."""
    return [None, *(_bin_of_s(us / 1e6) for us in range(1, TABLE_US))]


def _bin_of_us(us: int) -> int | None:
    return _table()[us] if us < TABLE_US else _bin_of_s(us / 1e6)


def warm_up() -> None:
    _table()


@dataclasses.dataclass(frozen=True, slots=True)
class Gaps:
    """Many samples of whole µs, sorted into bins once, to be added to several sketches: they are as many as tokens."""

    bins: Mapping[int | None, int]  # None: 0
    count: int
    sum_s: float
    least_s: float
    most_s: float

    @classmethod
    def between(cls, arrivals_us: Sequence[int], breathe: Breathe = hold_breath) -> "Gaps | None":
        """Those between neighbouring `arrivals_us`, some 0.3 µs each; None where there are none."""
        if len(arrivals_us) < 2:
            return None
        table = _table()
        bins: collections.Counter[int | None] = collections.Counter()
        sum_us, leasts, most = 0, [], 0
        for part in parts(arrivals_us, breathe, shared=1):
            gaps_us = itl_us(part)
            least, longest = min(gaps_us), max(gaps_us)
            if least < 0:  # the clock was set back in mid answer
                gaps_us, least = [max(gap, 0) for gap in gaps_us], 0
            bins.update(map(table.__getitem__ if longest < TABLE_US else _bin_of_us, gaps_us))
            sum_us += sum(gaps_us)
            leasts.append(least)
            most = max(most, longest)
        return cls(bins, len(arrivals_us) - 1, sum_us / 1e6, min(leasts) / 1e6, most / 1e6)


def add_gaps(sketch: DDSketch, gaps: Gaps | None) -> None:
    """Add the samples to `sketch`, in seconds."""
    if gaps is None:
        return
    filled = [key for key in gaps.bins if key is not None]
    if filled:
        store = sketch._store
        store.add(min(filled), 0.0)  # makes room
        store.add(max(filled), 0.0)
        bins, offset = store.bins, store.offset
        for key in filled:
            bins[key - offset] += gaps.bins[key]
        store.count += gaps.count - gaps.bins.get(None, 0)
    sketch._zero_count += gaps.bins.get(None, 0)
    sketch._count += gaps.count
    sketch._sum += gaps.sum_s
    sketch._min, sketch._max = min(sketch._min, gaps.least_s), max(sketch._max, gaps.most_s)


def quantile(seen: DDSketch, share: float, still_open: DDSketch | None = None) -> float | None:
    """The `share` quantile, linear between neighbouring samples; None where nothing that far was seen."""
    if seen.count == 0:
        return None
    position = (seen.count - 1) * share
    below = int(position)
    ranks = below, min(below + 1, seen.count - 1)
    if still_open is None or still_open.count == 0:
        floor, ceiling = (_at_rank(seen, rank) for rank in ranks)
        return floor + (ceiling - floor) * (position - below)
    reached = _reached(seen, still_open, [(rank + 1) / seen.count for rank in ranks])
    if len(reached) < len(ranks):
        return None
    floor, ceiling = reached
    return floor + (ceiling - floor) * (position - below)


def _at_rank(sketch: DDSketch, rank: float) -> float:
    """The sample of this rank (from 0). Half a rank more, so that rounding never falls to the neighbour."""
    last = sketch.count - 1
    return float(sketch.get_quantile_value(min(1.0, (rank + 0.5) / last) if last else 0.0))


def _reached(seen: DDSketch, still_open: DDSketch, shares: list[float]) -> list[float]:
    """Where the Kaplan-Meier distribution reaches each of the ascending `shares`; fewer where it never does."""
    found: list[float] = []
    at_risk, survival = seen.count + still_open.count, 1.0
    for value, ended, left in _bins(seen, still_open):
        survival *= 1 - ended / at_risk
        at_risk -= ended + left
        while len(found) < len(shares) and 1 - survival >= shares[len(found)] - ROUNDING:
            found.append(value)
    return found


def _bins(seen: DDSketch, still_open: DDSketch) -> Iterator[tuple[float, float, float]]:
    """(value, samples seen, samples open) of each bin, ascending."""
    ended = dict(_filled(seen._store))
    left = dict(_filled(still_open._store))
    if seen._zero_count or still_open._zero_count:
        yield 0.0, seen._zero_count, still_open._zero_count
    for key in sorted(ended.keys() | left.keys()):
        yield float(seen._mapping.value(key)), ended.get(key, 0), left.get(key, 0)


def share_above(sketch: DDSketch, limit: float) -> float | None:
    """Which share of the samples is larger than `limit`, to a bin; None of no samples."""
    if sketch.count == 0:
        return None
    if limit <= 0:
        return float(1 - sketch._zero_count / sketch.count)
    edge = sketch._mapping.key(limit)
    return float(sum(held for key, held in _filled(sketch._store) if key > edge) / sketch.count)
