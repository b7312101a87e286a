"""The record's file form: a row is one physical line, unknown is an empty cell, what is read back is what was written."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenswarm.record import (
    DETAIL_LIMIT,
    Caution,
    ErrorClass,
    HealthRecord,
    Outcome,
    RequestRecord,
    Stamp,
    StepRecord,
    TokensFrom,
    columns,
    header,
    one_line,
    request_from_cells,
    to_csv,
)


def read_back(row: str) -> RequestRecord:
    [cells] = csv.DictReader(io.StringIO(header(RequestRecord) + row, newline=""))
    return request_from_cells(cells)


FULL = RequestRecord(
    request_id="w-1",
    worker="w",
    user="ChatUser-1",
    task="chat, long",
    conversation="c1",
    turn=2,
    prompt_id="p7",
    scheduled_at=1700000000.25,
    sent_at=1700000000.5,
    connect_us=100,
    tls_us=200,
    reconnected=0,
    headers_us=300,
    chunk_us=(1000, 2000, 2000),
    chunk_tokens=(1, 2, 0),
    first_answer_us=2000,
    ended_us=3000,
    outcome=Outcome.FAILED,
    error_class=ErrorClass.STREAM_ERROR,
    http_status=200,
    detail='said "no", twice',
    warnings=(Caution.USAGE_MISSING, Caution.DONE_MISSING),
    finish_reason="stop",
    max_tokens=16,
    prompt_tokens=9,
    output_tokens=3,
    reasoning_tokens=0,
    cached_tokens=4,
    tokens_from=TokensFrom.USAGE,
    stamp=Stamp.KERNEL,
    lag_max_us=12,
    coalesced=1,
)
BARE = RequestRecord(request_id="w-2", worker="w", user="u", task="t", sent_at=1.5, outcome=Outcome.CANCELLED)


@pytest.mark.parametrize("record", [FULL, BARE])
def test_what_is_read_back_is_what_was_written(record: RequestRecord) -> None:
    row = to_csv(record)
    assert row.count("\n") == 1
    assert row.endswith("\n")
    assert read_back(row) == record


def test_unknown_is_an_empty_cell() -> None:
    [cells] = csv.DictReader(io.StringIO(header(RequestRecord) + to_csv(BARE)))
    told = {"request_id", "worker", "user", "task", "sent_at", "outcome"}
    assert {name for name, cell in cells.items() if cell != ""} == told


def test_zero_is_no_gap() -> None:
    [cells] = csv.DictReader(io.StringIO(header(RequestRecord) + to_csv(FULL)))
    assert (cells["reasoning_tokens"], cells["reconnected"]) == ("0", "0")
    assert read_back(to_csv(FULL)).reasoning_tokens == 0


@given(st.text())
def test_any_detail_is_one_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= DETAIL_LIMIT
    assert line.splitlines() in ([], [line])
    line.encode()  # no lone surrogates
    row = to_csv(
        RequestRecord(request_id="r", worker="w", user="u", task="t", sent_at=0, outcome=Outcome.OK, detail=text)
    )
    assert len(row.splitlines()) == 1
    assert read_back(row).detail == (line or None)


def test_a_long_detail_says_that_it_was_cut() -> None:
    assert one_line("x" * 1000) == "x" * (DETAIL_LIMIT - 1) + "…"
    assert one_line("x" * DETAIL_LIMIT) == "x" * DETAIL_LIMIT


def test_columns_of_a_later_version_are_ignored() -> None:
    [cells] = csv.DictReader(io.StringIO(header(RequestRecord) + to_csv(FULL)))
    assert request_from_cells({**cells, "invented": "1"}) == FULL


def test_the_other_rows_have_their_columns() -> None:
    step = StepRecord(step=1, target_users=5, started_at=1.0)
    assert to_csv(step) == "1,5,1.000000,,\n"
    assert columns(StepRecord)[:2] == ("step", "target_users")
    assert header(HealthRecord).startswith("at,worker,users,")
