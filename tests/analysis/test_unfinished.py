"""A run that was killed in mid step: the step has no row in steps.csv, and is shown as far as every request has a row."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from run_on_paper import T0, ok, step, write_run
from virtual_run import virtual_run

from analysis import tokens
from analysis.findings import findings
from analysis.load import load
from analysis.pipeline import analyse
from analysis.steady import FINISHED
from analysis.unfinished import with_unfinished
from simulator.engine import EngineSettings
from tokenswarm.record import RequestRecord


def back_to_back(user: str, from_s: float, to_s: float, each_s: float) -> list[RequestRecord]:
    """Requests of a closed-loop user, of four tokens each; what it had in flight at `to_s` left no row."""
    count = round((to_s - from_s) / each_s)
    times = [each_s * 1000 * share for share in (0.25, 0.5, 0.75, 1.0)]
    return [ok(f"{user}-{from_s}-{i}", from_s + i * each_s, times, user=user) for i in range(count)]


def killed(folder: Path, rows: list[RequestRecord], loads: tuple[int, ...] = (1, 2, 4), **more: Any) -> Path:
    """Of steps of 10 s the first is over; the run was killed later."""
    scenario = {"name": "stepload", "steps": loads, "step_time_s": 10, "warmup_s": 2}
    about = {"state": "running", "scenario": scenario, "started_at": T0} | more
    return write_run(folder, rows, [step(1, 1, 0, 10)], **about)


TWO_USERS = [*back_to_back("a", 0, 18, 0.5), *back_to_back("b", 10, 17, 1)]  # then a sent at 18, b at 17: no rows


def test_the_step_is_there_up_to_where_every_request_has_a_row(tmp_path: Path) -> None:
    found = analyse(killed(tmp_path, TWO_USERS))
    assert found.steps[FINISHED].tolist() == [True, False]
    assert found.summary.target_users.tolist() == [1, 2]
    row = found.summary.iloc[1]
    assert row.window_length_s == pytest.approx(5)  # from 10 + 2 s, when both users had sent, to 17 s
    assert row.observed_concurrency == pytest.approx(2)
    assert row.requests_sent == 10 + 5
    assert row.verdict == "suspect"
    assert "the run broke off in this step: its window ends after 5 s instead of 8 s" in row.reasons
    assert "cut short" not in row.reasons


def test_findings_say_how_the_run_ended_and_what_never_began(tmp_path: Path) -> None:
    texts = [one.text for one in findings(analyse(killed(tmp_path, TWO_USERS)))]
    assert (
        "This run never said how it ended: it was killed, or it is still going. Figures are of what was recorded. "
        "Never begun: 4 users." in texts
    )


def test_a_step_of_which_some_user_has_no_answer_has_no_window(tmp_path: Path) -> None:
    rows = [
        *back_to_back("a", 0, 18, 0.5),
        *back_to_back("b", 10, 11.5, 1.5),
    ]  # b was waiting since 11.5 s: in the warm-up
    for name, some in (("late", rows), ("never", TWO_USERS[:36])):
        row = analyse(killed(tmp_path / name, some)).summary.iloc[1]
        assert (row.verdict, row.requests_sent) == ("invalid", 0)
        assert "the run broke off in it before each of its users was answered after the warm-up" in row.reasons


def test_requests_on_a_schedule_tell_no_window(tmp_path: Path) -> None:
    rows = [dataclasses.replace(one, scheduled_at=one.sent_at) for one in TWO_USERS]
    row = analyse(killed(tmp_path, rows)).summary.iloc[1]
    assert (row.verdict, row.requests_sent) == ("invalid", 0)


def test_killed_in_the_first_step_there_is_no_file_of_steps(tmp_path: Path) -> None:
    preflight = ok("p", -1, [5], worker="preflight", user="preflight")
    folder = killed(tmp_path, [preflight, *back_to_back("a", 0.5, 7, 0.5)])
    (folder / "steps.csv").unlink()
    row = analyse(folder).summary.iloc[0]
    assert (row.step, row.target_users, row.window_length_s) == (1, 1, pytest.approx(7 - 2.5))


def test_users_that_an_earlier_step_stopped_do_not_hold_the_window_back(tmp_path: Path) -> None:
    rows = [*back_to_back("a", 0, 16, 0.5), *back_to_back("b", 0, 10, 0.5)]
    folder = killed(tmp_path, rows, loads=(2, 1))
    row = analyse(folder).summary.iloc[1]
    assert (row.target_users, row.window_length_s) == (1, pytest.approx(4))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"state": "complete"}, "it says that all is there"),
        ({"state": "interrupted"}, "its last step has a row: users sent until they were stopped"),
        ({"scenario": {"steps": [1], "step_time_s": 10, "warmup_s": 2}}, "there is no further step"),
    ],
)
def test_no_step_is_made_up(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    assert len(analyse(killed(tmp_path, TWO_USERS, **more)).steps) == 1, why


def test_requests_while_users_are_stopped_are_no_step(tmp_path: Path) -> None:
    folder = killed(tmp_path, back_to_back("a", 0, 11, 0.5), state="failed")
    assert len(analyse(folder).steps) == 1


def test_the_table_of_tokens_knows_the_step(tmp_path: Path) -> None:
    run = with_unfinished(load(killed(tmp_path, TWO_USERS)))
    assert set(next(tokens.blocks(run)).step) == {1, 2}


def test_a_cut_run_shows_what_the_whole_one_does(tmp_path: Path) -> None:
    """A real scheduler in virtual time, 8 users at once; rows of what is open at the cut are taken away."""
    settings = EngineSettings(max_num_seqs=4)
    whole = analyse(virtual_run(tmp_path / "whole", settings, (1, 8)))
    folder = virtual_run(tmp_path / "cut", settings, (1, 8), state="running")
    cut_us = whole.steps.begin_us[1] + 40_000_000
    kept = whole.requests.request_id[whole.requests.end_us < cut_us]
    path = folder / "requests-w1.csv"
    head, *lines = path.read_text().splitlines(keepends=True)
    path.write_text(head + "".join(line for line in lines if line.split(",")[0] in set(kept)))
    steps = (folder / "steps.csv").read_text().splitlines(keepends=True)
    (folder / "steps.csv").write_text("".join(steps[:2]))
    info = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(info | {"ended_at": None}))
    found, expected = analyse(folder).summary.iloc[1], whole.summary.iloc[1]
    assert 30 < found.window_length_s < 40
    for name in ("observed_concurrency", "output_tokens_per_s", "requests_per_s", "ttft_p50_s", "e2e_p50_s"):
        assert found[name] == pytest.approx(expected[name], rel=0.1), name
