"""Tokens counted from saved text: where the server told none, and beside what it told."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_on_paper import cancelled, ok, write_run

from analysis.__main__ import main
from analysis.load import load
from analysis.pipeline import analyse
from analysis.recount import COUNTED, counter_of, recounted, with_counts
from tokenswarm.record import Caution, TokensFrom
from tokenswarm.recorder import output_line
from tokenswarm.usage_error import UsageError

UNTOLD: dict[str, Any] = {"output_tokens": None, "tokens_from": TokensFrom.CHUNKS, "warnings": (Caution.USAGE_MISSING,)}


def words(texts: Any) -> list[int]:
    """A tokenizer whose tokens are words."""
    return [len(text.split()) for text in texts]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of a tokenizer whose tokens are words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder = tmp_path_factory.mktemp("tokenizer")
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return str(folder)


def saved(folder: Path, texts: dict[str, list[str]], **info: Any) -> Path:
    """Two answers of two chunks; usage of "told" only."""
    rows = [
        ok("told", 1, [100, 200], tokens=4),
        ok("untold", 2, [100, 400], **UNTOLD),
        cancelled("stopped", 3, 500, [100]),
    ]
    write_run(folder, rows, **info)
    (folder / "outputs-w1.jsonl").write_text("".join(output_line(name, chunks) for name, chunks in texts.items()))
    return folder


TEXTS = {"told": ["a b", " a b"], "untold": ["a b a", " b"], "stopped": ["a"]}


def test_counts_stand_where_nobody_told(tmp_path: Path) -> None:
    run = load(saved(tmp_path, TEXTS))
    found = with_counts(run, [tmp_path / "outputs-w1.jsonl"], words)
    table = found.requests.set_index("request_id")
    assert table[COUNTED].tolist()[:2] == [4, 4]
    assert np.isnan(table[COUNTED]["stopped"])
    assert table.output_tokens.tolist()[:2] == [4, 4]
    assert table.tokens_from.tolist()[:2] == ["usage", "tokenizer"]
    assert found.notes == ("the output tokens of 1 answer are a tokenizer's count of their text",)


def test_a_real_tokenizer_gives_the_untold_answer_its_tpot(tmp_path: Path, tokenizer: str) -> None:
    folder = saved(tmp_path, TEXTS)
    assert analyse(folder).summary.tpot_n[0] == 1
    found = analyse(folder, tokenizer)
    assert found.summary.tpot_n[0] == 2
    assert found.requests.set_index("request_id").tpot_us["untold"] == pytest.approx(300_000 / 3)
    assert counter_of(tokenizer)(["a b", "", "a x 你好"]) == [2, 0, 3]


def test_the_runs_own_tokenizer_is_taken(tmp_path: Path, tokenizer: str) -> None:
    folder = saved(tmp_path, TEXTS, options={"tokenizer": tokenizer})
    assert analyse(folder).summary.tpot_n[0] == 2
    folder = saved(tmp_path / "gone", TEXTS, options={"tokenizer": str(tmp_path / "no-such")})
    found = analyse(folder)
    assert found.summary.tpot_n[0] == 1
    assert "saved text was not counted: The tokenizer" in found.run.notes[0]


def test_usage_and_tokenizer_that_disagree_are_suspect(tmp_path: Path, tokenizer: str) -> None:
    """Two tokens an answer are no disagreement: a stop token is in no text."""
    for extra, reason in ((2, False), (3, True)):
        folder = tmp_path / str(extra)
        write_run(folder, [ok(f"r{i}", i, [100, 200], tokens=4 + extra) for i in range(9)])
        (folder / "outputs-w1.jsonl").write_text("".join(output_line(f"r{i}", ["a b ", "a b"]) for i in range(9)))
        row = analyse(folder, tokenizer).summary.iloc[0]
        said = "the server's usage says 63 output tokens, the tokenizer counts 36 in their text"
        assert (said in row.reasons) is reason
        assert row.verdict != "invalid" or "tokenizer" not in row.reasons.split(";")[0]


def test_text_that_a_stream_repeated_is_not_counted(tmp_path: Path) -> None:
    write_run(tmp_path, [ok("r", 1, [100, 200], **UNTOLD | {"warnings": (Caution.CUMULATIVE_CHUNK,)})])
    (tmp_path / "outputs-w1.jsonl").write_text(output_line("r", ["a", "a b"]))
    assert load(tmp_path).requests.output_tokens.isna().all()
    assert with_counts(load(tmp_path), [tmp_path / "outputs-w1.jsonl"], words).requests.output_tokens.isna().all()


def test_a_cut_last_line_is_counted_as_such_and_half_a_character_is_no_error(tmp_path: Path) -> None:
    folder = saved(tmp_path, {"told": ["a b \ud83d", "x"]})
    path = folder / "outputs-w1.jsonl"
    path.write_text(path.read_text() + '{"request_id":"untold","chu')
    found = with_counts(load(folder), [path], words)
    assert found.requests[COUNTED].notna().sum() == 1
    assert found.notes == ("1 last line of saved text, cut in the middle, left out",)
    path.write_text('{"request_id": 1}\n')
    with pytest.raises(UsageError, match=r"outputs-w1\.jsonl, line 1: expected an object with request_id and chunks"):
        with_counts(load(folder), [path], words)


def test_what_cannot_be_counted_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(tmp_path / "run", TEXTS)
    assert recounted(load(folder), None).notes == ()
    assert main(["report", str(folder), "--tokenizer", str(tmp_path / "no-such")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("analysis: The tokenizer ")
    assert said.count("\n") == 1
    (folder / "outputs-w1.jsonl").unlink()
    assert main(["report", str(folder), "--tokenizer", "x"]) == 2
    assert "SAVE_OUTPUTS=1 keeps it" in capsys.readouterr().err
