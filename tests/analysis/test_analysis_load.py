"""Reading a run folder: whole rows are read whole, half rows are counted, and a wrong cell is named."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_on_paper import T0, failed, lines, ok, write_run

from analysis import request_files
from analysis.errors import RunError
from analysis.load import load
from analysis.pipeline import analyse
from analysis.rows import RowReader
from tokenswarm.record import RequestRecord, StepRecord, columns

REQUESTS = "requests-w1.csv"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [ok("a", 1, [50, 60, 70]), ok("b", 2, [40]), failed("c", 3, 5)])


def rewrite(run: Path, old: str, new: str, file: str = REQUESTS) -> None:
    text = (run / file).read_text()
    assert old in text
    (run / file).write_text(text.replace(old, new, 1))


def cell(run: Path, name: str, value: str, row: int = 1) -> None:
    """Replaces a cell of the requests file."""
    table = [line.split(",") for line in (run / REQUESTS).read_text().splitlines()]
    table[row][table[0].index(name)] = value
    (run / REQUESTS).write_text("\n".join(map(",".join, table)) + "\n")


def test_rows_are_read_as_recorded(run: Path) -> None:
    found = load(run)
    assert list(found.requests.request_id) == ["a", "b", "c"]
    assert [found.chunks.of(i).tolist() for i in range(3)] == [[50_000, 60_000, 70_000], [40_000], []]
    assert found.requests.sent_us.tolist() == [round((T0 + s) * 1e6) for s in (1, 2, 3)]
    assert found.requests.output_tokens.isna().tolist() == [False, False, True]
    assert found.cut_rows == 0
    assert found.notes == ()


@pytest.mark.parametrize(
    "tail",
    [
        "x,w1,x,chat,,,,,1761442205.0,,,,,10",  # no newline at the end: 10 may have been 101500
        "x,w1,x,chat,,,,,1761442205.0\n",  # too few cells
        'x,w1,"read timed out\n',  # an open quote
        'x,w1,"read\ntimed',
        '"',
    ],
)
def test_a_cut_last_row_is_dropped_and_counted(run: Path, tail: str) -> None:
    with (run / REQUESTS).open("a") as file:
        file.write(tail)
    found = load(run)
    assert len(found.requests) == 3
    assert found.cut_rows == 1
    assert found.notes == ("1 last row was cut in the middle and dropped",)


def test_a_cut_at_every_byte_of_the_last_row_drops_that_row_alone(run: Path) -> None:
    whole = (run / REQUESTS).read_bytes()
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(start + 1, len(whole)):
        (run / REQUESTS).write_bytes(whole[:end])
        found = load(run)
        assert (len(found.requests), found.cut_rows) == (2, 1)


def test_quotes_newlines_and_html_in_errors_shift_no_column(tmp_path: Path) -> None:
    text = 'HTTP 502\n<html>"quoted", comma;\r\nline2'
    run = write_run(tmp_path, [failed("a", 1, 5, detail=text), ok("b", 2, [40])])
    found = load(run)
    assert found.requests.detail[0] == 'HTTP 502\\n<html>"quoted", comma;\\r\\nline2'
    assert found.requests.output_tokens[1] == 1
    rewrite(run, "\\n", "\n")  # another writer did not escape it
    assert load(run).requests.detail[0] == 'HTTP 502\n<html>"quoted", comma;\\r\\nline2'


def test_a_quote_that_swallows_rows_is_an_error(run: Path) -> None:
    rewrite(run, "a,w1,a,chat", 'a,w1,"a,chat')
    with pytest.raises(
        RunError, match=r"requests-w1\.csv, line 2: a quote is opened and never closed, and rows follow"
    ):
        load(run)


def test_a_short_row_in_the_middle_is_an_error(run: Path) -> None:
    rewrite(run, "b,w1,b,chat", "b,w1")
    with pytest.raises(RunError, match=r"requests-w1\.csv, line 3: expected 32 cells as in the header, found 30"):
        load(run)


def test_other_schemas_are_read_by_name(run: Path) -> None:
    table = [line.split(",") for line in (run / REQUESTS).read_text().splitlines()]
    at = table[0].index("coalesced")
    newer = [["new_column", *row[:at], *row[at + 1 :]] for row in table]  # one column more, one less, another order
    (run / REQUESTS).write_text("\n".join(",".join(reversed(row)) for row in newer) + "\n")
    found = load(run)
    assert found.requests.coalesced.isna().all()
    assert found.requests.output_tokens[0] == 3
    assert found.chunks.of(0).tolist() == [50_000, 60_000, 70_000]


def test_mixed_schemas_over_workers(run: Path) -> None:
    text = lines(RequestRecord, [ok("z", 4, [30])]).replace("coalesced", "merged")
    (run / "requests-w2.csv").write_text(text)
    found = load(run)
    assert found.requests.coalesced.isna().tolist() == [False, False, False, True]


def test_a_file_that_a_spreadsheet_saved(run: Path) -> None:
    path = run / REQUESTS
    text = path.read_text()
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    found = load(run)
    assert len(found.requests) == 3
    assert found.notes == ("requests-w1.csv was rewritten by another program (byte-order mark or CRLF)",)
    path.write_bytes(b"\xef\xbb\xbf" + text.replace(",", ";").replace("\n", "\r\n").encode())
    with pytest.raises(
        RunError, match=r"requests-w1\.csv, line 1: expected columns separated by commas, found semicolons"
    ):
        load(run)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("sent_at", "1.76144E+09", "epoch seconds with 6 decimals .*found '1.76144E\\+09'"),
        ("sent_at", "2025-10-26T02:30:00", "a local time is ambiguous"),
        ("sent_at", "", "a value, found nothing"),
        ("ended_us", "N/A", "a whole number, found 'N/A'"),
        ("ended_us", "nan", "a whole number, found 'nan'"),
        ("ended_us", "1.5", "a whole number, found '1.5'"),
        ("chunk_us", "10 2x 30", "whole numbers separated by single spaces, found '10 2x 30'"),
        ("chunk_us", "10  30", "whole numbers separated by single spaces"),
        ("chunk_us", "10 30 ", "whole numbers separated by single spaces"),
        ("chunk_tokens", "1 1", "one number for each of the 3 chunks, found '1 1'"),
        ("outcome", "great", "one of ok, failed, empty, cancelled, found 'great'"),
    ],
)
def test_a_wrong_cell_is_named(run: Path, column: str, value: str, message: str) -> None:
    cell(run, column, value)
    with pytest.raises(RunError, match=rf"requests-w1\.csv, line 2, column {column}: expected .*{message}"):
        load(run)


def test_an_instant_with_an_offset_is_an_instant(run: Path) -> None:
    cell(run, "sent_at", "2025-10-26T01:30:00Z")
    assert load(run).requests.sent_us[0] == 1_761_442_200_000_000


def test_a_missing_column_is_named(run: Path) -> None:
    rewrite(run, "sent_at", "sendt_at")
    with pytest.raises(RunError, match=r"requests-w1\.csv, line 1: the column sent_at is missing"):
        load(run)


def test_zero_rows_and_missing_files(run: Path) -> None:
    (run / REQUESTS).write_text(lines(RequestRecord, []))
    assert len(load(run).requests) == 0
    (run / REQUESTS).write_text("")
    assert load(run).cut_rows == 0
    (run / REQUESTS).unlink()
    assert load(run).notes == ("requests-*.csv is missing",)
    (run / "steps.csv").unlink()
    with pytest.raises(RunError, match="nothing was recorded in this run"):
        load(run)
    (run / "run.json").unlink()
    with pytest.raises(RunError, match=r"has no run\.json; name a run's folder"):
        load(run)


def test_run_json_that_is_no_json(run: Path) -> None:
    (run / "run.json").write_text('{"schema": 1,\n oops')
    with pytest.raises(RunError, match=r"run\.json, line 2, column 2: no JSON"):
        load(run)


def test_an_id_that_occurs_twice_is_said(run: Path) -> None:
    (run / "requests-w1 (copy).csv").write_bytes((run / REQUESTS).read_bytes())
    assert load(run).notes == ("3 request ids occur twice: is a file of requests there as a copy?",)


def test_blocks_do_not_show(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = analyse(run).summary
    monkeypatch.setattr("analysis.request_files.BLOCK_BYTES", 1)
    monkeypatch.setattr("analysis.events.BLOCK_CHUNKS", 1)
    assert analyse(run).summary.equals(before)


def test_every_column_of_the_record_is_read(run: Path) -> None:
    lists = {"chunk_us", "chunk_tokens"}
    assert set(columns(RequestRecord)) - lists <= set(load(run).requests.columns)
    assert set(columns(StepRecord)) <= set(load(run).steps.columns)


def many(run: Path, workers: int, rows: int) -> list[Path]:
    """`run` with files of that many rows, and where they are."""
    (run / REQUESTS).unlink()
    for worker in range(workers):
        made = [ok(f"{worker}-{row}", 1 + row, [50 + row % 7, 60, 70]) for row in range(rows)]
        (run / f"requests-w{worker}.csv").write_text(lines(RequestRecord, made))
    return sorted(run.glob("requests-*.csv"))


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize(("processes", "most"), [(2, 10**9), (3, 10**9), (2, 900), (1, 900)])
def test_shares_of_big_files_make_the_same_run(
    run: Path, monkeypatch: pytest.MonkeyPatch, workers: int, processes: int, most: int
) -> None:
    files = many(run, workers, 40)
    (run / REQUESTS).write_text(lines(RequestRecord, [failed("q", 3, 5, detail='a "quote"')]))  # is read whole
    whole = load(run)
    monkeypatch.setattr(request_files, "cores", lambda: processes)
    monkeypatch.setattr(request_files, "LEAST_BYTES", 500)
    monkeypatch.setattr(request_files, "MOST_BYTES", most)
    sizes = [path.stat().st_size for path in files]
    pieces = request_files.shares([RowReader(path) for path in files], sizes, processes)
    assert len(pieces) == processes
    assert all(pieces)
    shared = load(run)
    pd.testing.assert_frame_equal(shared.requests, whole.requests)
    assert shared.chunks.at_us.tolist() == whole.chunks.at_us.tolist()
    assert shared.chunks.start.tolist() == whole.chunks.start.tolist()
    assert (shared.cut_rows, shared.notes) == (whole.cut_rows, whole.notes)


@pytest.mark.parametrize("row", [2, 21, 39])
def test_a_wrong_row_of_a_share_is_named_by_its_line(run: Path, monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    (path,) = many(run, 1, 40)
    rows = path.read_text().splitlines()
    rows[row] = rows[row].replace("000 70000", "000 7x000")
    path.write_text("\n".join(rows) + "\ncut")
    monkeypatch.setattr(request_files, "LEAST_BYTES", 500)
    with pytest.raises(RunError, match=rf"requests-w0\.csv, line {row + 1}, column chunk_us"):
        load(run)
    rows[row] = rows[row].replace("7x000", "70000")
    path.write_text("\n".join(rows) + "\ncut")
    assert (len(load(run).requests), load(run).cut_rows) == (40, 1)


@given(st.lists(st.integers(0, 400), min_size=1, max_size=5), st.integers(0, 9))
def test_shares_hold_every_byte_once(rows: list[int], count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        readers = []
        for index, number in enumerate(rows):
            path = Path(name) / f"requests-{index}.csv"
            path.write_text("a,b,c\n" + "1,2,3\n" * number)
            readers.append(RowReader(path))
        sizes = [reader.path.stat().st_size for reader in readers]
        pieces = request_files.shares(readers, sizes, count)
        assert len(pieces) == max(count, 1)
        flat = [piece for share in pieces for piece in share]
        for reader in readers:
            own = [piece for piece in flat if piece.path == reader.path]
            assert [piece.begin for piece in own] == [None, *(piece.end for piece in own[:-1])]
            assert own[-1].end is None
        assert [piece.path for piece in flat] == sorted((piece.path for piece in flat), key=str)


@pytest.mark.parametrize(
    ("rewritten", "words"),
    [
        (
            lambda text: text.replace("\n", "\r").encode(),
            "expected lines ended by line feeds, found carriage returns alone",
        ),
        (lambda text: text.encode("utf-16"), "expected UTF-8, found UTF-16"),
        (lambda text: text.replace(",", "\t").encode(), "expected columns separated by commas, found tabs"),
        (lambda text: text.replace("user,task", "user,user").encode(), "the column user is there twice"),
    ],
)
def test_a_file_that_another_program_wrote_is_named(run: Path, rewritten: Callable[[str], bytes], words: str) -> None:
    path = run / REQUESTS
    path.write_bytes(rewritten(path.read_text()))
    with pytest.raises(RunError, match=rf"requests-w1\.csv, line 1: .*{words}"):
        load(run)
