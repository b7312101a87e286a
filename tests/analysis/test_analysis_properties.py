"""What must change nothing: another hour, another split over workers, another order of the rows."""

import dataclasses
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from run_on_paper import cancelled, failed, lines, ok, step, write_run

from analysis.pipeline import analyse
from tokenswarm.record import RequestRecord, StepRecord

STEPS = [step(1, 1, 0.5, 6, started_s=0), step(2, 3, 6.5, 12, started_s=6)]


@st.composite
def requests(draw: st.DrawFn) -> list[RequestRecord]:
    found = []
    for index in range(draw(st.integers(0, 25))):
        at_s = draw(st.integers(0, 12_000)) / 1000
        gaps = draw(st.lists(st.integers(0, 2000), max_size=6))
        times = [sum(gaps[: i + 1]) for i in range(len(gaps))]
        kind = draw(st.sampled_from([ok, ok, ok, failed, cancelled]))
        user = f"u{draw(st.integers(0, 3))}"
        if kind is ok:
            found.append(ok(f"r{index}", at_s, times or [5], user=user))
        else:
            end_ms = (times[-1] if times else 0) + draw(st.integers(0, 500))
            found.append(kind(f"r{index}", at_s, end_ms, times, user=user))
    return found


def summary(rows: list[RequestRecord], steps: list[StepRecord] = STEPS, files: int = 1) -> pd.DataFrame:
    with TemporaryDirectory() as name:
        folder = write_run(Path(name), rows, steps, step_time_s=5, warmup_s=1)
        for index in range(files):
            text = lines(RequestRecord, rows[index::files])
            (folder / f"requests-w{index + 1}.csv").write_text(text)
        return analyse(folder).summary


@settings(deadline=None, max_examples=30)
@given(requests(), st.integers(-(10**13), 10**14))
def test_shifting_all_times_changes_nothing(rows: list[RequestRecord], shift_us: int) -> None:
    def later(at: float) -> float:
        return round(at * 1e6 + shift_us) / 1e6

    moved = [dataclasses.replace(row, sent_at=later(row.sent_at)) for row in rows]
    steps = []
    for one in STEPS:
        assert one.settled_at is not None
        assert one.ended_at is not None
        ends = later(one.ended_at)
        steps.append(
            dataclasses.replace(one, started_at=later(one.started_at), settled_at=later(one.settled_at), ended_at=ends)
        )
    pd.testing.assert_frame_equal(summary(moved, steps), summary(rows), check_exact=True)


@settings(deadline=None, max_examples=30)
@given(requests(), st.integers(2, 4))
def test_splitting_over_workers_changes_nothing(rows: list[RequestRecord], files: int) -> None:
    pd.testing.assert_frame_equal(summary(rows, files=files), summary(rows), check_exact=True)


@settings(deadline=None, max_examples=30)
@given(requests(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows: list[RequestRecord], rng: random.Random) -> None:
    shuffled = rows[:]
    rng.shuffle(shuffled)
    pd.testing.assert_frame_equal(summary(shuffled), summary(rows), check_exact=True)


@settings(deadline=None, max_examples=30)
@given(requests())
def test_every_row_is_accounted_for(rows: list[RequestRecord]) -> None:
    found = summary(rows)
    kinds = ["requests_ok", "requests_failed", "requests_empty", "requests_cancelled"]
    assert (found[kinds].sum(axis=1) == found.requests_sent).all()
    for metric in ("e2e", "tpot"):
        known = found[f"{metric}_n"] + found[f"{metric}_left_out"] + found.requests_censored
        assert (known == found.requests_sent).all()
