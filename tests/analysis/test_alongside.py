"""Work in a second process: the same answers and errors as here, whatever becomes of that process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from analysis import alongside
from analysis.alongside import Alongside
from analysis.errors import RunError

LIMIT_S = 30.0
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or alongside.cores() < 2, reason="there is no second process without a second core"
)


def double(number: int) -> tuple[int, int]:
    return 2 * number, os.getpid()


def test_the_work_is_done_elsewhere() -> None:
    with Alongside(double) as one:
        one.begin(21)
        answer, who = one.result()
    assert answer == 42
    assert who != os.getpid()


def test_it_may_be_asked_again() -> None:
    with Alongside(double) as one:
        answers = []
        for number in range(3):
            one.begin(number)
            answers.append(one.result())
    assert [answer for answer, _ in answers] == [0, 2, 4]
    assert len({who for _, who in answers}) == 1


def test_two_at_once_do_not_mix_their_answers() -> None:
    with Alongside(double) as one, Alongside(double) as other:
        one.begin(1)
        other.begin(2)
        assert (other.result()[0], one.result()[0]) == (4, 2)


@pytest.mark.parametrize("error", [RunError("line 3 is no row"), OSError(28, "No space left on device", "curve.png")])
def test_its_error_is_raised_here(error: Exception) -> None:
    def fail() -> NoReturn:
        raise error

    with Alongside(fail) as one:
        one.begin()
        with pytest.raises(type(error)) as seen:
            one.result()
    assert str(seen.value) == str(error)


def test_with_one_core_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alongside, "cores", lambda: 1)
    with Alongside(double) as one:
        one.begin(4)
        assert one.result() == (8, os.getpid())


def test_when_the_process_is_killed_it_is_done_here() -> None:
    here = os.getpid()

    def die_elsewhere(number: int) -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with Alongside(die_elsewhere) as one:
        one.begin(5)
        assert one.result() == 5


def test_when_it_never_begins_it_is_done_here() -> None:
    here = os.getpid()

    def refuse_elsewhere() -> None:
        if os.getpid() != here:
            os._exit(3)

    with Alongside(double, refuse_elsewhere) as one:
        one.begin(6)
        assert one.result() == (12, here)


def wait_for_ever(beat: Path) -> None:
    beat.write_text(str(os.getpid()))
    time.sleep(600)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def interrupted(beat: Path) -> None:
    with Alongside(wait_for_ever) as one:
        one.begin(beat)
        until(lambda: beat.exists() and beat.read_text())
        raise KeyboardInterrupt


def test_leaving_ends_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "beat")
    assert gone(int((tmp_path / "beat").read_text()))


@pytest.mark.parametrize("has_begun", [True, False])
def test_ctrl_c_leaves_nobody_behind(tmp_path: Path, has_begun: bool) -> None:
    """As from a terminal: the signal reaches both processes, and only the first one speaks."""
    code = f"""
import os, pathlib, signal, time
from analysis.alongside import Alongside
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
beat = pathlib.Path({str(tmp_path / "beat")!r})
def note():
    beat.with_suffix(".pid").write_text(str(os.getpid()))
    beat.with_suffix(".pid").rename(beat)
def work():
    time.sleep(600)
with Alongside(work, note) as one:
    {"one.begin()" if has_begun else ""}
    time.sleep(600)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until((tmp_path / "beat").exists)
        os.killpg(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=LIMIT_S)
    finally:
        child.kill()
    assert said.count("KeyboardInterrupt") == 1
    assert "Process" not in said
    until(lambda: gone(int((tmp_path / "beat").read_text())))


def test_what_was_printed_before_is_printed_once() -> None:
    code = (
        "from analysis.alongside import Alongside\nprint('once')\n"
        "with Alongside(len) as one:\n    one.begin('abc'); print(one.result())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout.split() == ["once", "3"]
