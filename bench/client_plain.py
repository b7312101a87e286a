"""What others would write: a loop over the openai SDK's stream, or over requests' lines, under gevent, stamping as it goes.

python -m bench.client_openai TASK        python -m bench.client_requests TASK
"""

import time
from collections.abc import Callable, Iterator

from bench.task import Task, closed_loop
from bench.truth import Comparison, tell

now_ns = time.time_ns
Texts = Callable[[int], Iterator[str]]  # the texts of one answer, for the user of that number, as they come


def measure(task: Task, texts_of: Texts) -> dict[str, object]:
    answers: list[tuple[int, list[int], list[str]]] = []  # sent, arrivals, texts
    cpu_s = began_s = 0.0

    def ask(user: int) -> None:
        arrivals: list[int] = []
        texts: list[str] = []
        sent_ns = now_ns()
        for text in texts_of(user):
            arrivals.append(now_ns())
            texts.append(text)
        answers.append((sent_ns, arrivals, texts))

    def warm() -> None:
        nonlocal cpu_s, began_s
        answers.clear()
        cpu_s, began_s = time.process_time(), time.monotonic()

    closed_loop(task, ask, warm)
    cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - began_s
    comparison = Comparison()
    for answer in answers:
        comparison.add(*answer)
    tokens = len(comparison.errors_ns)
    return {
        "tokens": tokens,
        "took_s": took_s,
        "tokens_per_s": tokens / took_s,
        "cpu_us": cpu_s / tokens * 1e6,
        "cpu_cores": cpu_s / took_s,
        **comparison.summary(),
    }


def run(texts_of: Callable[[Task], Texts]) -> None:
    task = Task.from_arguments()
    tell(measure(task, texts_of(task)))
