"""requests and `iter_lines`, a session for each user, as Locust's HttpUser has it."""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()

import json
from collections.abc import Iterator

import requests

from bench.client_plain import Texts, run
from bench.task import Task

DATA, DONE = b"data: ", b"[DONE]"


def texts_of(task: Task) -> Texts:
    sessions = [requests.Session() for _ in range(task.streams)]

    def texts(user: int) -> Iterator[str]:
        with sessions[user].post(f"{task.url}/chat/completions", json=task.body(user), stream=True) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if line.startswith(DATA) and not line.endswith(DONE):
                    choices = json.loads(line[len(DATA) :])["choices"]
                    if choices and choices[0]["delta"].get("content"):
                        yield choices[0]["delta"]["content"]

    return texts


if __name__ == "__main__":
    run(texts_of)
