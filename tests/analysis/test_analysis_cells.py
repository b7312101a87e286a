"""Cells → numbers and words: the fast ways give what Python's own reading of the text gives, or stand back."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import cells
from analysis.cells import Place
from analysis.chunks import parse_lists
from analysis.digits import whole_numbers
from analysis.errors import RunError

COUNTS = st.integers(0, 10**8 - 1)


def place(count: int) -> Place:
    return Place(Path("requests-w1.csv"), range(2, 2 + count), "chunk_us")


@given(st.lists(st.lists(COUNTS, min_size=1, max_size=30), min_size=1, max_size=20), st.integers(0, 3))
def test_numbers_are_those_that_the_text_says(rows: list[list[int]], zeros: int) -> None:
    found = whole_numbers("\n".join(" ".join(f"{number:0{zeros}d}" for number in row) for row in rows).encode())
    assert found is not None
    assert found[0].tolist() == [number for row in rows for number in row]
    assert found[1].tolist() == [len(row) for row in rows]


@pytest.mark.parametrize("at", [0, 1, 7, 8])
def test_a_byte_that_is_no_digit_is_never_read_as_one(at: int) -> None:
    for byte in set(range(256)) - set(b"0123456789 \n"):
        text = bytearray(b"12345678 1")
        text[at] = byte
        assert whole_numbers(bytes(text)) is None


@pytest.mark.parametrize("text", [b"", b" 1", b"1 ", b"1  2", b"1\n\n2", b"\n1", b"1\n", b"123456789", b"-1", b"+1"])
def test_what_it_does_not_know_it_leaves_to_others(text: bytes) -> None:
    assert whole_numbers(text) is None


@given(st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=5), min_size=1, max_size=8))
def test_lists_of_any_size_are_read(rows: list[list[int]]) -> None:
    found = parse_lists([" ".join(map(str, row)).encode() for row in rows], place(len(rows)))
    assert [found[index].tolist() for index in range(len(rows))] == rows


@pytest.mark.parametrize("bad", [b"1  2", b" 1", b"1 ", b"1\n2", b"1.5", b"x", b"1\t2", b"1,2", b"99999999999 x"])
def test_the_first_wrong_list_is_named(bad: bytes) -> None:
    with pytest.raises(RunError, match=r"line 4, column chunk_us: expected whole numbers separated by single spaces"):
        parse_lists([b"1 2", b"", bad, bad], place(4))


@given(st.lists(st.integers(10**15, 2**53), min_size=1, max_size=20))
def test_instants_are_the_floats_that_their_texts_stand_for(instants_us: list[int]) -> None:
    texts = [f"{us // 10**6}.{us % 10**6:06d}" for us in instants_us]
    assert cells._instants([text.encode() for text in texts], place(len(texts))).tolist() == list(map(float, texts))


@pytest.mark.parametrize(
    "cell", [b"1761442200.12345", b"1761442200123456.", b"-761442200.123456", b"176144220:.123456"]
)
def test_instants_of_another_shape_are_left_to_others(cell: bytes) -> None:
    assert cells._six_decimals([cell]) is None
    assert cells._six_decimals([]) is None


def test_few_words_and_many_make_the_same_column() -> None:
    some = [b"w1", b"", b"w2", b"w\xc3\xa4"] * 20
    many = [f"id{number}".encode() for number in range(80)]
    for texts in (some, many, many[:3] + some, [b""] * 5, [b"a"], []):
        found = cells._texts(texts, place(len(texts)))
        assert found.dtype == "str"
        assert found.isna().tolist() == [not text for text in texts]
        assert found.dropna().tolist() == [text.decode() for text in texts if text]


def test_a_word_that_is_no_utf8_is_named() -> None:
    for before in ([b"w1", b"w1"], [f"id{number}".encode() for number in range(80)]):
        with pytest.raises(RunError, match=rf"line {len(before) + 2}, column chunk_us: expected UTF-8"):
            cells._texts([*before, b"\xff"], place(len(before) + 1))


def test_the_room_to_compute_in_is_not_the_answer() -> None:
    first = whole_numbers(b"1 2 3")
    second = whole_numbers(b"4 5 6")
    assert first is not None
    assert second is not None
    assert not any(np.shares_memory(one, other) for one in first for other in second)
    assert first[0].tolist() == [1, 2, 3]
