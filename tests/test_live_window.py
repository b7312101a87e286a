"""What the page shows of a step is what the report says of it: the golden run, row by row, against the analysis."""

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis import names
from analysis.pipeline import Analysis, analyse
from tokenswarm.live import Live, LiveRun
from tokenswarm.live_sketch import ACCURACY, new_sketch, quantile
from tokenswarm.live_tally import LATENCIES, TOKENS
from tokenswarm.live_window import BUSY_S, COMPLETED, Window
from tokenswarm.record import RequestRecord, request_from_cells
from tokenswarm.runfolder import REQUESTS_OF_ALL

GOLDEN = Path(__file__).parent / "analysis" / "golden" / "run"
EXACT = 1e-9


def records() -> Iterator[RequestRecord]:
    for path in sorted(GOLDEN.glob(REQUESTS_OF_ALL)):
        with open(path, newline="", encoding="utf-8") as file:
            yield from map(request_from_cells, csv.DictReader(file))


@pytest.fixture(scope="module")
def report() -> Analysis:
    return analyse(GOLDEN)


@pytest.fixture(scope="module")
def live(report: Analysis) -> LiveRun:
    """Two processes that tell now and then, merged."""
    master, workers = LiveRun(), (Live(), Live())
    for step in report.steps.dropna(subset=["begin_us"]).itertuples():
        window = Window(int(step.step), step.begin_us / 1e6, step.end_us / 1e6)
        master.tell(window)
        for worker in workers:
            worker.windows._windows[window.step] = window  # all at once: the rows are in no order
    for number, record in enumerate(records()):
        workers[number % 2].add(record)
        if number % 50 == 49:
            for name, worker in zip("ab", workers, strict=True):
                master.merge(name, worker.snapshot())
    for name, worker in zip("ab", workers, strict=True):
        master.merge(name, worker.snapshot())
    return master


@pytest.mark.parametrize("metric", [*LATENCIES, names.ITL])
def test_quantiles_are_the_reports(report: Analysis, live: LiveRun, metric: str) -> None:
    compared = 0
    for row in report.summary.to_dict("records"):
        step = live.steps.get(row[names.STEP])
        for which, share in names.QUANTILES.items():
            expected = row[names.stat(metric, which)]
            if step is None or math.isnan(expected):
                continue  # the report withholds what stands on too few samples
            compared += 1
            assert step.tally.quantile_s(metric, share) == pytest.approx(expected, rel=2 * ACCURACY), (row, which)
    assert compared >= 2


def test_counts_and_rates_are_the_reports(report: Analysis, live: LiveRun) -> None:
    assert live.steps
    for row in report.summary.to_dict("records"):
        if row[names.STEP] not in live.steps:
            continue
        step = live.steps[row[names.STEP]]
        length_s = row[names.WINDOW_LENGTH_S]
        counts = step.tally.counts
        assert counts.get(TOKENS, 0) / length_s == pytest.approx(row[names.OUTPUT_TOKENS_PER_S])
        assert counts.get(COMPLETED, 0) / length_s == pytest.approx(row[names.REQUESTS_PER_S])
        assert counts.get(BUSY_S, 0) / length_s == pytest.approx(row[names.OBSERVED_CONCURRENCY], rel=1e-4)
        for figure, expected in (
            (step.tally.error_ratio, row[names.ERROR_RATIO]),
            (step.tally.truncated_ratio, row[names.TRUNCATED_RATIO]),
        ):
            assert (math.nan if figure is None else figure) == pytest.approx(expected, nan_ok=True)


def test_open_samples_push_a_quantile_up_and_hide_what_was_never_reached() -> None:
    seen, still_open = new_sketch(), new_sketch()
    for value in range(1, 11):
        seen.add(float(value))
    assert quantile(seen, 0.5, still_open) == pytest.approx(5.5, rel=ACCURACY)
    for _ in range(10):
        still_open.add(5.0)
    # Kaplan-Meier by hand: 5 of 20 ended up to 5; then 5 at risk are left, each worth 0.75 / 5
    assert quantile(seen, 0.5, still_open) == pytest.approx(7.0, rel=0.08)
    late = new_sketch()
    late.add(100.0)
    assert quantile(seen, 1.0, late) is None
    assert quantile(new_sketch(), 0.5, still_open) is None
