"""Every request its own prompt, of the asked length, from a seed; lengths calibrated on a tokenizer or on usage."""

import itertools
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import REPO, llama_server
from tokenswarm.calibration import (
    ESTIMATE,
    Calibration,
    Message,
    Rate,
    Source,
    TokenizerError,
    calibration_requests,
    fit,
    from_tokenizer,
)
from tokenswarm.text.prose import Language, measure, words
from tokenswarm.workload import Workload, fewest_tokens

EXACT = Calibration(source=Source.SERVER, english=Rate(20.0, 1.0), chinese=Rate(24.0, 5.0), residual_tokens=0.0)


def workload(
    *,
    seed: int = 1,
    run_id: str = "run",
    worker_index: int = 0,
    prompt_tokens: int = 128,
    calibration: Calibration = EXACT,
    chinese_share: float = 0.1,
) -> Workload:
    return Workload(
        seed=seed,
        run_id=run_id,
        worker_index=worker_index,
        prompt_tokens=prompt_tokens,
        calibration=calibration,
        chinese_share=chinese_share,
    )


def texts(source: Workload, count: int) -> list[str]:
    return [source.next().messages[0]["content"] for _ in range(count)]


def common_start(one: str, other: str) -> int:
    return sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one.split(), other.split(), strict=False))
    )


def test_a_prompt_is_one_user_message_with_an_id_and_a_length() -> None:
    prompt = workload(chinese_share=0.0).next()
    assert [set(message) for message in prompt.messages] == [{"role", "content"}]
    assert prompt.messages[0]["role"] == "user"
    assert prompt.prompt_id == "0-0-en"
    assert prompt.expected_tokens == 128
    assert workload(calibration=ESTIMATE).next().expected_tokens is None


def test_the_same_seed_worker_and_number_give_the_same_prompt() -> None:
    one, same = workload(seed=7, worker_index=2), workload(seed=7, worker_index=2)
    assert [one.next() for _ in range(50)] == [same.next() for _ in range(50)]
    assert texts(workload(seed=7), 5) != texts(workload(seed=8), 5)


def test_the_same_prompt_comes_from_another_process() -> None:
    """Text hashes differ from process to process; prompts must not depend on them."""
    code = (
        "from tests.test_workload import *; import json; "
        "print(json.dumps([workload(chinese_share=0.5).next() for _ in range(1)] + [workload().next()]))"
    )
    seen = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=REPO,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert seen[0] == seen[1] != ""


def test_no_two_prompts_begin_alike_within_and_across_runs_and_workers() -> None:
    sources = [workload(run_id=run_id, worker_index=index) for run_id in ("a", "b") for index in (0, 1)]
    starts = [" ".join(text.split()[:6]) for source in sources for text in texts(source, 3000)]
    assert len(set(starts)) == len(starts) == 12_000


def test_neighbours_differ_in_their_first_word() -> None:
    source = texts(workload(chinese_share=0.0), 300)
    assert len({text.split()[0] for text in source}) == 300


def test_a_run_changes_the_opening_and_nothing_else() -> None:
    one, other = workload(run_id="a", chinese_share=0.0), workload(run_id="b", chinese_share=0.0)
    for text, again in zip(texts(one, 50), texts(other, 50), strict=True):
        assert text.split(".", 1)[0] != again.split(".", 1)[0]
        assert text.split(".", 1)[1] == again.split(".", 1)[1]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 1.0])
def test_the_share_of_chinese_prompts_is_kept(share: float) -> None:
    found = sum(not text.isascii() for text in texts(workload(chinese_share=share), 200))
    assert found == pytest.approx(200 * share, abs=1)


def test_workers_do_not_all_send_chinese_at_once() -> None:
    first = [[text.isascii() for text in texts(workload(worker_index=index), 10)].index(False) for index in range(20)]
    assert len(set(first)) > 3


@pytest.mark.parametrize("tokens", [27, 28, 64, 129, 4096])
def test_length_in_units_is_as_asked(tokens: int) -> None:
    for share in (0.0, 1.0):
        source = workload(prompt_tokens=tokens, chinese_share=share)
        for text in texts(source, 20):
            filling = [word for word in text.removesuffix("请续写长文。").split("。")[-1].split() if word.isascii()]
            if not text.isascii():
                text = text.replace("".join(f" {word}" for word in filling), "")
            language, units = measure(text)
            rate = EXACT.rate(language)
            extra = len(filling) if language is Language.CHINESE else 0
            assert rate.fixed_tokens + units * rate.unit_tokens + extra == tokens


def test_too_short_says_the_least_that_goes() -> None:
    fewest = fewest_tokens(EXACT, Language.ENGLISH)
    assert fewest == 27
    with pytest.raises(ValueError, match=r"26 tokens are too short.* 27 or more"):
        workload(prompt_tokens=fewest - 1)
    workload(prompt_tokens=fewest).next()


def test_too_short_for_chinese_sends_english_and_says_so() -> None:
    source = workload(prompt_tokens=fewest_tokens(EXACT, Language.CHINESE) - 1, chinese_share=0.5)
    assert source.chinese_share == 0.0
    assert all(text.isascii() for text in texts(source, 20))
    assert workload(prompt_tokens=fewest_tokens(EXACT, Language.CHINESE), chinese_share=0.5).chinese_share == 0.5


def test_an_impossible_share_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        workload(chinese_share=1.5)


def test_a_prompt_costs_microseconds() -> None:
    """About 10 µs for 256 tokens; the bound is loose, but no tokenizer fits under it."""
    source = workload(prompt_tokens=256)
    best_s = min(_time_s(source.next, 100) for _ in range(20))
    assert best_s < 100e-6


def _time_s(call: Callable[[], object], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


# Calibration


def served(messages: list[Message], english: Rate, chinese: Rate) -> int:
    """A server's prompt_tokens under given rates."""
    language, units = measure(messages[0]["content"])
    rate = english if language is Language.ENGLISH else chinese
    return round(rate.fixed_tokens + units * rate.unit_tokens)


def test_fit_finds_the_rates_of_a_server() -> None:
    english, chinese = Rate(31.0, 1.0), Rate(35.0, 2.25)
    found = fit((messages, served(messages, english, chinese)) for messages in calibration_requests())
    assert found.source is Source.SERVER
    assert found.english == english
    assert found.chinese.unit_tokens == pytest.approx(2.25, rel=0.02)
    assert found.residual_tokens is not None
    assert found.residual_tokens < 1


def test_fit_reports_its_error_and_is_not_bent_by_one_odd_answer() -> None:
    measured = [(messages, served(messages, EXACT.english, EXACT.chinese)) for messages in calibration_requests()]
    measured[1] = (measured[1][0], measured[1][1] + 6)
    found = fit(measured)
    assert found.english.unit_tokens == pytest.approx(1.0, abs=0.1)
    assert found.residual_tokens is not None
    assert found.residual_tokens > 3


def test_without_usage_or_with_useless_usage_it_is_an_estimate() -> None:
    requests = calibration_requests()
    assert fit((messages, None) for messages in requests) == ESTIMATE
    assert fit((messages, 17) for messages in requests) == ESTIMATE
    assert ESTIMATE.source is Source.ESTIMATE
    assert ESTIMATE.residual_tokens is None


def test_unanswered_chinese_requests_take_the_estimate_for_chinese_alone() -> None:
    found = fit(
        (messages, served(messages, EXACT.english, EXACT.chinese) if messages[0]["content"].isascii() else None)
        for messages in calibration_requests()
    )
    assert (found.source, found.english, found.chinese) == (Source.SERVER, EXACT.english, ESTIMATE.chinese)


def test_calibration_travels_as_plain_json() -> None:
    sent = Calibration(source=Source.TOKENIZER, english=Rate(6, 1), chinese=Rate(6, 2.5), left_out=("a", "词"))
    assert Calibration.from_dict(json.loads(json.dumps(sent.to_dict()))) == sent
    assert Calibration.from_dict(json.loads(json.dumps(EXACT.to_dict()))) == EXACT


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE trained here: four of five of our words are one token, the others and most Chinese are several."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    names = ("openers", "nouns", "verbs", "adjectives")
    known = [word for name in names for i, word in enumerate(words(name)) if i % 5]
    pick = random.Random(0)
    corpus = [" ".join(pick.sample(known, 40)) + ". the near and for a" for _ in range(3000)]
    corpus += ["Continue this story at length.", "请续写长文。", "、".join(words("chinese_words")[:40])] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=6000,
            show_progress=False,
            special_tokens=["<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHATML, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("tokens", [100, 128, 1000, 4096])
def test_a_tokenizers_length_is_hit(tokenizer_folder: Path, tokens: int) -> None:
    from transformers import AutoTokenizer

    calibration = from_tokenizer(str(tokenizer_folder))
    assert calibration.source is Source.TOKENIZER
    assert calibration.left_out, "some words are several tokens here, and must not be used"
    tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_folder))
    source = workload(prompt_tokens=tokens, calibration=calibration, chinese_share=0.0)
    for _ in range(30):
        prompt = source.next()
        ids = tokenizer.apply_chat_template(prompt.messages, add_generation_prompt=True, return_dict=False)
        assert len(ids) == pytest.approx(tokens, abs=1)


def test_a_tokenizer_that_cannot_be_loaded_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="cannot be loaded") as error:
        from_tokenizer(str(tmp_path))
    assert "tokenizer.json" in str(error.value)
    assert "\n" not in str(error.value)


# The real server


def prompt_tokens(base_url: str, messages: list[Message]) -> int:
    body = json.dumps({"messages": messages, "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return int(json.load(answer)["usage"]["prompt_tokens"])


@pytest.mark.llama
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_lengths_on_the_real_server_are_within_three_per_cent() -> None:
    with llama_server(model="smollm2", slots=1) as server:
        calibration = fit((messages, prompt_tokens(server.base_url, messages)) for messages in calibration_requests())
        assert calibration.source is Source.SERVER
        for tokens, count in ((64, 2), (128, 6), (700, 2)):
            source = workload(prompt_tokens=tokens, calibration=calibration, chinese_share=0.5)
            for _ in range(count):
                prompt = source.next()
                assert prompt_tokens(server.base_url, prompt.messages) == pytest.approx(tokens, rel=0.03)
