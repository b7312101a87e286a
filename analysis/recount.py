"""Output tokens counted from the text that was saved, by the model's own tokenizer: where the server told none they stand
for its count, and beside its count they are a check on it. Reads outputs-*.jsonl, nothing else.

Special tokens are in no text: of an answer the count is lower by its stop token, of a tool call by the syntax around it.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.load import Run
from analysis.steady import has_caution
from analysis.wording import things
from tokenswarm.calibration import TokenizerError, load_tokenizer
from tokenswarm.record import Caution, Outcome, TokensFrom
from tokenswarm.runfolder import OUTPUTS_OF_ALL
from tokenswarm.usage_error import UsageError

COUNTED = "counted_tokens"  # column of the requests: of their text, by the tokenizer; NaN: not counted
BATCH = 512  # texts handed to the tokenizer at once
Counter = Callable[[Sequence[str]], list[int]]  # texts → their tokens


def recounted(run: Run, tokenizer: str | None) -> Run:
    """`run` with COUNTED, and the output tokens that nobody told. tokenizer: path or hub id; None: the one of the run.

    Without a tokenizer, or without saved text, nothing changes. Raises UsageError where one was asked for and either
    is not to be had.
    """
    files = sorted(run.folder.glob(OUTPUTS_OF_ALL))
    chosen = tokenizer or str((run.info.get("options") or {}).get("tokenizer") or "")
    if tokenizer and not files:
        raise UsageError(
            "--tokenizer: no text was kept in this run (SAVE_OUTPUTS=1 keeps it), so there is none to count"
        )
    if not chosen or not files:
        return run
    try:
        counter = counter_of(chosen)
    except TokenizerError as error:
        if tokenizer:
            raise UsageError(str(error)) from None
        return dataclasses.replace(run, notes=(*run.notes, f"saved text was not counted: {str(error).rstrip('.')}"))
    return with_counts(run, files, counter)


def counter_of(path_or_hub_id: str) -> Counter:
    """Raises TokenizerError."""
    tokenizer = load_tokenizer(path_or_hub_id)

    def count(texts: Sequence[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]

    return count


def with_counts(run: Run, files: Iterable[Path], counter: Counter) -> Run:
    """`run` with the tokens of the texts in `files`, and a note on what they stand for."""
    cut: list[Path] = []
    counts = dict(_counts(_texts(files, cut), counter))
    requests = run.requests
    found = requests.request_id.map(counts).astype(float)
    # what is repeated in a stream was received once, and the text of a request that ended otherwise is not its answer
    counted = found.where((requests.outcome == Outcome.OK) & ~has_caution(requests, Caution.CUMULATIVE_CHUNK))
    untold = requests.output_tokens.isna() & (counted > 0)
    notes = list(run.notes)
    if untold.any():
        notes.append(
            f"the output tokens of {things(int(untold.sum()), 'answer')} are a tokenizer's count of their text"
        )
    if cut:
        notes.append(f"{things(len(cut), 'last line')} of saved text, cut in the middle, left out")
    requests = requests.assign(
        **{COUNTED: counted},
        output_tokens=requests.output_tokens.where(~untold, counted),
        tokens_from=requests.tokens_from.where(~untold, TokensFrom.TOKENIZER.value),
    )
    return dataclasses.replace(run, requests=requests, notes=tuple(notes))


def _texts(files: Iterable[Path], cut: list[Path]) -> Iterator[tuple[str, str]]:
    """(request id, text) of each whole line; files whose last line is not are added to `cut`."""
    for path in files:
        with path.open(encoding="utf-8", errors="surrogatepass") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith("\n"):
                    cut.append(path)
                    continue
                try:
                    told = json.loads(line)
                    yield str(told["request_id"]), "".join(told["chunks"])
                except (ValueError, TypeError, KeyError):
                    raise UsageError(
                        f"{path.name}, line {number}: expected an object with request_id and chunks; mend or delete the line"
                    ) from None


def _counts(texts: Iterable[tuple[str, str]], counter: Counter) -> Iterator[tuple[str, int]]:
    batch: list[tuple[str, str]] = []
    for one in texts:
        batch.append(one)
        if len(batch) == BATCH:
            yield from _count(batch, counter)
            batch = []
    yield from _count(batch, counter)


def _count(batch: Sequence[tuple[str, str]], counter: Counter) -> Iterator[tuple[str, int]]:
    if batch:
        counts = counter([text.encode(errors="replace").decode() for _, text in batch])  # half a surrogate pair
        yield from zip((name for name, _ in batch), counts, strict=True)


def mismatch(requests: pd.DataFrame, slack: float) -> tuple[float, float]:
    """(tokens by the server's usage, by the tokenizer) of the answers that have both; equal where they differ by at most
    `slack` tokens an answer. (nan, nan): there are none.
    """
    if COUNTED not in requests:
        return np.nan, np.nan
    both = requests[
        (requests.tokens_from == TokensFrom.USAGE) & requests[COUNTED].notna() & requests.output_tokens.notna()
    ]
    if not len(both):
        return np.nan, np.nan
    usage, counted = float(both.output_tokens.sum()), float(both[COUNTED].sum())
    return (usage, usage) if abs(usage - counted) <= slack * len(both) else (usage, counted)
