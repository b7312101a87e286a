"""What the server said of itself: read, averaged over windows, and cited by the findings."""

from pathlib import Path
from typing import Any

import pytest
from run_on_paper import ok, step, told, write_run
from steps_on_paper import a_queue, a_step, table

from analysis.bend_words import bound
from analysis.errors import RunError
from analysis.findings import findings
from analysis.knee import knee
from analysis.load import load
from analysis.phase import Phase, binding
from analysis.pipeline import analyse
from analysis.server_state import ServerLoad, in_windows, over_time, restarted
from analysis.server_words import NOT_RECORDED, at, cited, stalls
from tokenswarm.server_row import ServerRow

STEPS = [step(1, 1, 0, 10), step(2, 5, 10, 20)]


def loads(folder: Path, rows: list[ServerRow]) -> list[ServerLoad]:
    found = analyse(write_run(folder, [ok("a", 1, [50])], STEPS, server=rows))
    return in_windows(found.run.server, found.steps)


def test_two_targets_on_paper(tmp_path: Path) -> None:
    """Their requests add up, of their caches the fullest counts; the second row of b is another window's."""
    rows = [
        told(1, "http://a", running=2, waiting=0, kv_cache_ratio=0.2, preemptions_total=3, generation_tokens_total=100),
        told(3, "http://a", running=4, waiting=2, kv_cache_ratio=0.6, preemptions_total=5, generation_tokens_total=300),
        told(2, "http://b", running=1, waiting=1, kv_cache_ratio=0.9),
        told(12, "http://b", running=9, waiting=9, kv_cache_ratio=1.0),
    ]
    first, second = loads(tmp_path, rows)
    assert first == ServerLoad(running=4, waiting=2, kv_cache=0.9, preemptions=2, generated_per_s=100)
    assert (second.running, second.waiting, second.kv_cache) == (9, 9, 1.0)
    assert second.known
    assert second.preemptions != second.preemptions  # unknown
    assert not ServerLoad().known


def test_a_server_that_was_started_anew_counts_from_zero(tmp_path: Path) -> None:
    rows = [told(at_s, preemptions_total=n) for at_s, n in ((1, 7), (2, 9), (3, 1), (4, 2))]
    found = analyse(write_run(tmp_path, [ok("a", 1, [50])], STEPS, server=rows))
    assert in_windows(found.run.server, found.steps)[0].preemptions == 2 + 1 + 1
    assert restarted(found.run.server, found.steps)
    assert not restarted(found.run.server.iloc[:2], found.steps)
    assert not restarted(found.run.server.iloc[:0], found.steps)


def test_seconds_of_all_targets_together(tmp_path: Path) -> None:
    rows = [told(0.2, "http://a", running=1), told(1.1, "http://a", running=3), told(0.4, "http://b", running=10)]
    run = load(write_run(tmp_path, [ok("a", 1, [50])], server=rows))
    assert over_time(run.server).running.tolist() == [11, 13]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [ok("a", 1, [50])], server=[told(1, running=1), told(2, running=2)])
    text = (folder / "server.csv").read_text()
    (folder / "server.csv").write_text(text[:-4])
    assert load(folder).notes == ("1 last row was cut in the middle and dropped",)
    (folder / "server.csv").write_text(text.replace(",2,", ",two,"))
    with pytest.raises(RunError, match=r"server\.csv, line 3, column running: expected a number, found 'two'"):
        load(folder)
    (folder / "server.csv").unlink()
    assert len(load(folder).server) == 0


def bend(before: ServerLoad, after: ServerLoad) -> str:
    summary = a_queue([1, 2, 5, 20, 50], 5)
    found = knee(summary)
    assert found is not None
    told_of = binding(summary, found)
    assert told_of.phase is Phase.QUEUE
    return next(iter(bound(told_of, (before, after)))).text


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {}, NOT_RECORDED),
        (
            {"waiting": 0.0},
            {"waiting": 14.96, "running": 5.0, "kv_cache": 0.4},
            "The server says that 15.0 waited in its queue on average (none before the bend) while it computed 5. Its KV "
            "cache was 40 % full at most, so that does not bind.",
        ),
        (
            {},
            {"waiting": 0.0},
            "none waited in its queue on average: they wait before it, in a proxy, say. Whether its",
        ),
        ({}, {"kv_cache": 0.99}, "Its KV cache was 99 % full at most: no room was left."),
        ({}, {"kv_cache": 0.5, "preemptions": 2.0}, "Its KV cache was 50 % full at most: no room was left."),
    ],
)
def test_a_bend_cites_the_server(before: dict[str, Any], after: dict[str, Any], words: str) -> None:
    assert words in bend(ServerLoad(**before), ServerLoad(**after))


def test_pauses_are_explained_by_preemptions() -> None:
    assert stalls(ServerLoad()) == "The server's own figures would tell."
    assert stalls(ServerLoad(preemptions=1.0)) == "The server counts 1 preemption there."
    assert stalls(ServerLoad(preemptions=0.0)).startswith("The server preempted none there")
    assert "so that does not bind" in cited(ServerLoad(), ServerLoad(kv_cache=0.1), Phase.DECODE)


def test_the_level_of_a_step_without_a_word_is_unknown() -> None:
    summary = table([a_step(1), a_step(5), a_step(5)])
    known = ServerLoad(running=3.0)
    assert at(5, [ServerLoad(), known, ServerLoad()], summary) == known
    assert not at(1, [ServerLoad(), known, known], summary).known


def steady(users: int, begin_s: float) -> list[Any]:
    return [
        ok(f"{begin_s}-{user}-{i}", begin_s + i / 8, [31, 62, 94, 125], user=f"u{user}")
        for user in range(users)
        for i in range(80)
    ]


def test_a_full_cache_a_restart_and_other_clients_are_findings(tmp_path: Path) -> None:
    """Of 32 and 160 tokens/s that arrive the server counts twice as many."""
    totals = [told(s, generation_tokens_total=64.0 * s, kv_cache_ratio=0.3, preemptions_total=0.0) for s in range(10)]
    totals += [
        told(s, generation_tokens_total=640 + 320.0 * (s - 10), kv_cache_ratio=0.97, preemptions_total=s - 10.0)
        for s in range(10, 20)
    ]
    rows = [*steady(1, 0), *steady(5, 10)]
    texts = [one.text for one in findings(analyse(write_run(tmp_path / "a", rows, STEPS, server=totals)))]
    assert (
        "The server's KV cache is full at 5 users (up to 97 %), and 9 times a request lost its place in it and was "
        "computed anew." in texts
    )
    assert any(text.startswith(("The server counts 2.0", "The server counts 2 times")) for text in texts)
    anew = [*totals, told(20, generation_tokens_total=1.0)]
    texts = [one.text for one in findings(analyse(write_run(tmp_path / "b", rows, STEPS, server=anew)))]
    assert "The server was started anew during the run: its counts began again at 0." in texts
