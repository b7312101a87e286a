"""What the report's plots show, by hand: three requests on paper, their tokens, their time in flight."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_on_paper import cancelled, failed, ok, step, write_run

from analysis import names, report_series
from analysis.pipeline import Analysis, analyse


def three(folder: Path) -> Analysis:
    """Sent at 0, 1 and 2 s; the first two with tokens at 0.5 s steps, the third fails after 1.5 s."""
    rows = [
        ok("a", 0.0, [500, 1000, 1500], prompt_tokens=10),
        ok("b", 1.0, [500, 1500], tokens=4, prompt_tokens=20),
        failed("c", 2.0, 1500),
    ]
    return analyse(write_run(folder, rows, [step(1, 3, 0, 4)], step_time_s=4))


def test_tokens_fall_into_the_second_of_their_arrival(tmp_path: Path) -> None:
    found = three(tmp_path)
    line = report_series.timeline(found.requests, found.run.chunks, found.steps)
    assert line.bin_s == 1
    # a: 0.5, 1.0, 1.5 s; b: 2 tokens a chunk at 1.5 and 2.5 s; the run ends at 3.5 s, its last half second is no bin
    assert line.bins.tokens_per_s.tolist() == [1, 4, 2]
    assert line.bins.at_s.tolist() == [0.5, 1.5, 2.5]


def test_requests_in_flight_are_a_time_average(tmp_path: Path) -> None:
    found = three(tmp_path)
    line = report_series.timeline(found.requests, found.run.chunks, found.steps)
    # a: 0–1.5, b: 1–2.5, c: 2–3.5
    assert line.bins.in_flight.tolist() == pytest.approx([1.0, 1.5, 1.5])


def test_errors_stand_where_they_ended_and_stops_apart(tmp_path: Path) -> None:
    rows = [ok("a", 0, [10] * 1 + [3900]), failed("b", 0.5, 700), cancelled("c", 0.1, 2500)]
    found = analyse(write_run(tmp_path, rows, [step(1, 3, 0, 4)], step_time_s=4))
    line = report_series.timeline(found.requests, found.run.chunks, found.steps)
    assert line.bins.failed.tolist() == [0, 1, 0]
    assert line.bins.stopped.tolist() == [0, 0, 1]


def test_requests_before_the_first_step_are_no_dots(tmp_path: Path) -> None:
    rows = [ok("preflight", -5, [100]), ok("a", 1, [100, 2000])]
    found = analyse(write_run(tmp_path, rows))
    line = report_series.timeline(found.requests, found.run.chunks, found.steps)
    assert line.dots.at_s.tolist() == [1.0]


def test_percentiles_of_a_bin_are_withheld_where_they_are_few(tmp_path: Path) -> None:
    rows = [ok(f"a{i}", i / 10, [10 * (i + 1), 900]) for i in range(6)] + [ok("b", 1.5, [10, 2000])]
    found = analyse(write_run(tmp_path, rows))
    bins = report_series.timeline(found.requests, found.run.chunks, found.steps).bins
    assert bins.p50.tolist()[:2] == pytest.approx([0.035, np.nan], nan_ok=True)
    assert bins.p95.isna().all()


def test_the_share_within_a_time(tmp_path: Path) -> None:
    rows = [ok(f"r{i}", i, [100 * (i + 1), 100 * (i + 1) + 10]) for i in range(4)]
    found = analyse(write_run(tmp_path, rows))
    (part,) = report_series.ecdfs(found.requests, found.steps, names.TTFT)
    assert part.value_s.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert part.share.tolist() == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_an_open_request_is_no_short_one(tmp_path: Path) -> None:
    """One of four is still open when the window closes: nobody saw more than three quarters end."""
    rows = [ok(f"r{i}", i, [10, 100 * (i + 1)]) for i in range(3)] + [cancelled("open", 3, 6000, [10])]
    found = analyse(write_run(tmp_path, rows))
    (part,) = report_series.ecdfs(found.requests, found.steps, names.E2E)
    assert part.value_s.max() == pytest.approx(0.3)
    assert part.share.max() < 1


def test_the_gap_over_the_position(tmp_path: Path) -> None:
    """Each gap is 1 ms longer than the one before it, in every answer."""
    times = np.cumsum([10, *range(20, 40)]).tolist()
    found = analyse(write_run(tmp_path, [ok(f"r{i}", i / 10, times) for i in range(30)]))
    (part,) = report_series.answer_position(found.requests, found.run.chunks, found.steps)
    assert part.position.tolist() == list(range(1, 21))
    assert part.p50_s.tolist() == pytest.approx([gap / 1000 for gap in range(20, 40)])
    assert (part.n == 30).all()


def test_the_line_over_the_position_ends_where_few_answers_are_left(tmp_path: Path) -> None:
    short = [ok(f"s{i}", i / 10, list(range(10, 60, 10))) for i in range(60)]
    long = [ok(f"l{i}", i / 10, list(range(10, 600, 10))) for i in range(5)]
    found = analyse(write_run(tmp_path, short + long))
    (part,) = report_series.answer_position(found.requests, found.run.chunks, found.steps)
    assert part.position.max() == 4


def test_thinning_keeps_every_kth() -> None:
    rows, every = report_series.thinned(pd.DataFrame({"x": range(10)}), most=4)
    assert (rows.x.tolist(), every) == ([0, 3, 6, 9], 3)
    assert report_series.thinned(pd.DataFrame({"x": range(4)}), most=4)[1] == 1


@pytest.mark.parametrize(("span_s", "bin_s"), [(30, 1), (400, 1), (401, 2), (2400, 10), (100_000, 300), (1e7, 25_000)])
def test_bins_are_round_and_no_more_than_the_plot_can_show(span_s: float, bin_s: float) -> None:
    assert report_series.bin_length_s(span_s) == bin_s
    assert span_s / bin_s <= report_series.MOST_BINS


def test_nothing_at_all_is_no_error(tmp_path: Path) -> None:
    found = analyse(write_run(tmp_path, []))
    line = report_series.timeline(found.requests, found.run.chunks, found.steps)
    assert len(line.dots) == 0
    (part,) = report_series.ecdfs(found.requests, found.steps, names.TPOT)
    assert len(part) == 0
    (part,) = report_series.answer_position(found.requests, found.run.chunks, found.steps)
    assert len(part) == 0
