"""What to know about one answer before its numbers are believed: the row's `warnings`. They make no failure of it."""

from tokenswarm.chat_stream import Answer
from tokenswarm.record import Caution

# Tokens without text (a stop token, bytes held back) make the ratio of tokens to chunks a little more than 1 anywhere.
MULTI_TOKEN_RATIO = 1.5
MULTI_TOKEN_EXCESS = 2
# One chunk for a whole answer. Up to two tokens in it are normal: the word and the end-of-sequence token.
SINGLE_CHUNK_TOKENS = 3
SINGLE_CHUNK_CHARS = 16  # where nobody tells tokens: longer than nearly every token
# No engine makes 10,000 tokens/s for one user: chunks that are nearer were held back and released together.
SAME_INSTANT_NS = 100_000
BUFFERED_GROUP = 4  # so many output chunks in one instant; fewer may be speculative decoding or a scheduler's tick
BUFFERED_SHARE = 0.5  # of all output chunks
# A token carries at least one byte of text, but for a few special ones: far more tokens than bytes were never streamed.
HIDDEN_BYTES_FACTOR = 2
HIDDEN_SLACK_TOKENS = 16
# Templates only add to the prompt; a tokenizer that is not quite the server's may be off by some percent, not by this.
PROMPT_TRUNCATED_RATIO = 0.8
# A word is at least about one token for every tokenizer in use; half of it is beyond doubt.
TOKENS_PER_WORD_LEAST = 0.5
PROMPT_WORDS_LEAST = 40  # below this a ratio says nothing


def cautions(
    answer: Answer,
    *,
    sent_mark: int,
    max_tokens: int | None,
    ignore_eos: bool,
    expected_prompt_tokens: int | None,
    prompt_words: int | None,
) -> tuple[Caution, ...]:
    """The cautions that hold for a closed `answer`, in the order of their definition.

    `sent_mark`: when the request was sent, on the scale of the answer's marks (ns). `expected_prompt_tokens`: the
    prompt's length by a tokenizer, where known; else `prompt_words`, its number of words, gives a safe lower bound.
    """
    tokens = answer.usage.completion_tokens if answer.usage else None
    hidden = _hidden_reasoning(answer, tokens)
    ended = answer.has_output and answer.error is None
    found = (
        (Caution.USAGE_MISSING, ended and tokens is None),
        (Caution.DONE_MISSING, ended and answer.streamed and not answer.done_seen),
        (Caution.FINISH_REASON_MISSING, ended and not answer.finished),
        (Caution.MULTI_TOKEN_CHUNKS, not hidden and _multi_token(len(answer.marks), tokens)),
        (Caution.SINGLE_CHUNK_RESPONSE, _single_chunk(answer, tokens)),
        (Caution.BUFFERING_SUSPECTED, _buffered(answer, sent_mark)),
        (Caution.REPLACEMENT_CHARS, answer.replacement_chars > 0),
        (Caution.MALFORMED_EVENT, answer.malformed_events > 0),
        (Caution.CUMULATIVE_CHUNK, answer.cumulative),
        (Caution.HIDDEN_REASONING, hidden),
        (Caution.SHORT_OUTPUT, ended and ignore_eos and _short(answer, tokens, max_tokens)),
        (Caution.PROMPT_TRUNCATED, _prompt_truncated(answer, expected_prompt_tokens, prompt_words)),
        (Caution.COMPRESSED_STREAM, answer.compressed and answer.streamed),
        (Caution.NOT_STREAMED, not answer.streamed),
    )
    return tuple([caution for caution, holds in found if holds])


def _multi_token(chunks: int, tokens: int | None) -> bool:
    if not chunks or tokens is None:
        return False
    return tokens >= chunks * MULTI_TOKEN_RATIO and tokens - chunks >= MULTI_TOKEN_EXCESS


def _single_chunk(answer: Answer, tokens: int | None) -> bool:
    if len(answer.marks) != 1:
        return False
    if tokens is not None:
        return tokens >= SINGLE_CHUNK_TOKENS
    return answer.output_bytes > SINGLE_CHUNK_CHARS


def _buffered(answer: Answer, sent_mark: int) -> bool:
    """Whether output was held back on its way: many chunks in one instant, not one after the other."""
    marks, gaps = answer.marks, answer.gaps
    if len(marks) < BUFFERED_GROUP or min(gaps) > SAME_INSTANT_NS:
        return False
    spread, waited = marks[-1] - marks[0], marks[0] - sent_mark
    if spread <= SAME_INSTANT_NS * len(gaps):
        return waited > spread
    near = sum(map(SAME_INSTANT_NS.__ge__, gaps))
    if 2 * near < BUFFERED_SHARE * len(marks):  # a group of n has n - 1, more than half as many
        return False
    group, in_groups = 1, 0
    for gap in (*gaps, SAME_INSTANT_NS + 1):
        if gap <= SAME_INSTANT_NS:
            group += 1
            continue
        if group >= BUFFERED_GROUP:
            in_groups += group
        group = 1
    return in_groups >= BUFFERED_SHARE * len(marks)


def _hidden_reasoning(answer: Answer, tokens: int | None) -> bool:
    """Whether the server counts tokens that it never streamed."""
    if not answer.streamed or not answer.marks or tokens is None:
        return False
    reasoning = (answer.usage.reasoning_tokens if answer.usage else None) or 0
    if reasoning and not answer.reasoning_bytes:
        inline = "</think" in answer.text or len(answer.marks) > tokens - reasoning / 2
        return not inline  # the reasoning was part of the content, or streamed in a field of another name
    if answer.tool_arguments:
        return False  # the syntax around a tool call is counted and not sent
    return tokens > HIDDEN_BYTES_FACTOR * answer.output_bytes + HIDDEN_SLACK_TOKENS


def _short(answer: Answer, tokens: int | None, max_tokens: int | None) -> bool:
    if max_tokens is None:
        return False
    if tokens is not None:
        return tokens < max_tokens
    return answer.finish_reason is not None and answer.finish_reason != "length"


def _prompt_truncated(answer: Answer, expected: int | None, words: int | None) -> bool:
    told = answer.usage.prompt_tokens if answer.usage else None
    if not told:
        return False
    cached = (answer.usage.cached_tokens if answer.usage else None) or 0
    told += cached if cached > told else 0  # some servers count what came from the cache apart
    if expected is not None:
        return told < PROMPT_TRUNCATED_RATIO * expected
    return words is not None and words >= PROMPT_WORDS_LEAST and told < TOKENS_PER_WORD_LEAST * words
