"""Rows are whole or absent: on a full disk, at a size limit, and after kill -9."""

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenswarm.record import (
    Caution,
    ErrorClass,
    Outcome,
    RequestRecord,
    Stamp,
    TokensFrom,
    header,
    request_from_cells,
    to_csv,
)
from tokenswarm.rowfile import RecordingError, RowFile, cut_torn_row, whole_size

ROOT = Path(__file__).parent.parent


def script(text: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text), *arguments]


def test_rows_are_in_the_file_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "a.csv", "name,value\n")
    rows.append("a,1\n")
    rows.append("\u4f60\u597d,2\n")
    assert rows.path.read_bytes() == "name,value\na,1\n\u4f60\u597d,2\n".encode()
    assert rows.rows == 2
    rows.close()
    rows.close()


def test_a_file_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old\n")
    with pytest.raises(FileExistsError):
        RowFile(tmp_path / "a.csv", "name\n")
    assert (tmp_path / "a.csv").read_text() == "old\n"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone/a\.csv cannot be made: No such file"):
        RowFile(tmp_path / "gone" / "a.csv", "name\n")


def test_a_lone_surrogate_costs_no_row(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "a.csv", "")
    rows.append("\ud83d,1\n")
    assert rows.path.read_bytes() == b"\\ud83d,1\n"


WRITE_UNTIL_FULL = """
    import resource, signal, sys
    from pathlib import Path
    from tokenswarm.rowfile import RecordingError, RowFile
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if sys.argv[2] != "-":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
    rows = RowFile(Path(sys.argv[1]), "number,text\\n")
    try:
        for number in range(100_000):
            rows.append(f"{number},{'x' * 700}\\n")
    except RecordingError as error:
        print(rows.rows)
        print(error)
    try:
        rows.append("y" * 5000 + "\\n")
        print("taken")
    except RecordingError:
        print("refused")
    rows.close()
"""


def check_filled(path: Path, said: str) -> None:
    count, sentence, again = said.splitlines()
    lines = path.read_text().split("\n")
    assert lines[0] == "number,text"
    assert lines[1:-1] == [f"{number},{'x' * 700}" for number in range(int(count))]
    assert lines[-1] == ""
    assert int(count) > 10
    assert again == "refused"
    assert str(path) in sentence
    assert f"The {count} rows before it are whole" in sentence


def test_a_size_limit_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    done = subprocess.run(
        script(WRITE_UNTIL_FULL, str(path), "20000"), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    check_filled(path, done.stdout)
    assert path.stat().st_size < 20000


def test_a_full_disk_leaves_whole_rows(tmp_path: Path) -> None:
    """A real one: a file system of 64 kB, mounted where only this test sees it; the file is copied out of it."""
    unshare = shutil.which("unshare")
    mount = "mkdir -p $1/disk && mount -t tmpfs -o size=64k tmpfs $1/disk"
    if (
        unshare is None
        or subprocess.run([unshare, "-m", "sh", "-c", mount, "sh", str(tmp_path)], check=False).returncode
    ):
        pytest.skip("mounting a small file system is not allowed here")
    path = tmp_path / "disk" / "a.csv"
    arguments = script(WRITE_UNTIL_FULL, str(path), "-")
    command = mount + ' && kept=$1/kept.csv && shift && "$@" && cp "$4" "$kept"'
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", command, "sh", str(tmp_path), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    path.write_bytes((tmp_path / "kept.csv").read_bytes())
    check_filled(path, done.stdout)
    assert 40_000 < path.stat().st_size <= 65536


def test_a_header_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from pathlib import Path
        from tokenswarm.rowfile import RecordingError, RowFile
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
        try:
            RowFile(Path(sys.argv[1]), "number,text\\n")
        except RecordingError:
            print("refused")
    """
    path = tmp_path / "a.csv"
    done = subprocess.run(script(code, str(path)), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "refused\n"
    assert not path.exists()


WRITE_FOR_EVER = """
    import itertools, sys
    from pathlib import Path
    from tokenswarm.rowfile import RowFile
    rows = RowFile(Path(sys.argv[1]), "number,text\\n")
    for number in itertools.count():
        rows.append(f"{number},{'x' * int(sys.argv[2])}\\n")
        if number == 20:
            print("writing", flush=True)
        if rows._size > 300_000_000:
            break  # nobody has come to kill us
"""


@pytest.mark.parametrize("length", [200, 1600, 30_000])
def test_kill_9_in_mid_write_leaves_whole_rows(tmp_path: Path, length: int) -> None:
    for attempt in range(3):
        path = tmp_path / f"{attempt}.csv"
        child = subprocess.Popen(script(WRITE_FOR_EVER, str(path), str(length)), cwd=ROOT, stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"writing\n"
            time.sleep(0.003 * attempt)
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(timeout=30)
            if child.stdout is not None:
                child.stdout.close()
        torn = cut_torn_row(path)
        assert 0 <= torn < length + 20  # never more than one row
        lines = path.read_text().split("\n")
        assert lines[0] == "number,text"
        assert lines[-1] == ""
        assert len(lines) > 20
        assert lines[1:-1] == [f"{number},{'x' * length}" for number in range(len(lines) - 2)]


@pytest.mark.parametrize(
    ("held", "whole"),
    [
        ("", ""),
        ("a,b\n", "a,b\n"),
        ("a,b\n1,2\n3,", "a,b\n1,2\n"),
        ("a,", ""),
        ("a,b\n" + "x" * 200_000, "a,b\n"),
        ("a\n" * 70_000 + "x", "a\n" * 70_000),
    ],
)
def test_the_front_part_of_a_row_is_cut(tmp_path: Path, held: str, whole: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(held)
    assert whole_size(path) == len(whole)
    assert path.read_text() == held
    assert cut_torn_row(path) == len(held) - len(whole)
    assert path.read_text() == whole
    assert cut_torn_row(path) == 0


def test_an_error_of_the_disk_itself_is_said(tmp_path: Path) -> None:
    """A descriptor that was taken away stands for EIO: the sentence says so, the rows counted stay counted."""
    rows = RowFile(tmp_path / "a.csv", "n\n")
    rows.append("1\n")
    os.close(rows._fd)
    with pytest.raises(RecordingError, match=r"Bad file descriptor\. 1 rows are whole; the line after them is not"):
        rows.append("2\n")
    with pytest.raises(RecordingError, match="did not take all rows"):
        rows.close()


_text = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), codec="utf-8"), min_size=1, max_size=20)
_us = st.integers(0, 10**10)
_at = st.integers(1_500_000_000 * 10**6, 2_500_000_000 * 10**6).map(lambda us: float(f"{us / 1e6:.6f}"))


@st.composite
def records(draw: st.DrawFn) -> RequestRecord:
    chunks = tuple(sorted(draw(st.lists(_us, max_size=30))))
    maybe = lambda strategy: draw(st.none() | strategy)  # noqa: E731
    return RequestRecord(
        request_id=draw(_text),
        worker=draw(_text),
        user=draw(_text),
        task=draw(_text),
        conversation=maybe(_text),
        turn=maybe(st.integers(0, 100)),
        prompt_id=maybe(_text),
        scheduled_at=maybe(_at),
        sent_at=draw(_at),
        connect_us=maybe(_us),
        tls_us=maybe(_us),
        reconnected=maybe(st.integers(0, 3)),
        headers_us=maybe(_us),
        chunk_us=chunks,
        chunk_tokens=maybe(st.just(tuple(range(len(chunks))))) or None,
        first_answer_us=maybe(_us),
        ended_us=maybe(_us),
        outcome=draw(st.sampled_from(Outcome)),
        error_class=maybe(st.sampled_from(ErrorClass)),
        http_status=maybe(st.integers(100, 599)),
        detail=maybe(_text),
        warnings=tuple(draw(st.lists(st.sampled_from(Caution), max_size=3))),
        finish_reason=maybe(_text),
        max_tokens=maybe(st.integers(1, 10**6)),
        prompt_tokens=maybe(st.integers(0, 10**6)),
        output_tokens=maybe(st.integers(0, 10**6)),
        reasoning_tokens=maybe(st.integers(0, 10**6)),
        cached_tokens=maybe(st.integers(0, 10**6)),
        tokens_from=maybe(st.sampled_from(TokensFrom)),
        stamp=maybe(st.sampled_from(Stamp)),
        lag_max_us=maybe(_us),
        coalesced=maybe(st.integers(0, 1000)),
    )


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records(), max_size=3))
def test_records_come_back_as_they_went_in(tmp_path_factory: pytest.TempPathFactory, sent: list[RequestRecord]) -> None:
    path = tmp_path_factory.mktemp("rows") / "requests.csv"
    rows = RowFile(path, header(RequestRecord))
    for record in sent:
        rows.append(to_csv(record))
    rows.close()
    text = path.read_bytes().decode()
    assert text.count("\n") == len(sent) + 1
    assert [request_from_cells(cells) for cells in csv.DictReader(io.StringIO(text))] == sent
