"""The openai SDK with its own transport, one client for all users of the process, as its documentation advises."""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()

from collections.abc import Iterator

import openai

from bench.client_plain import Texts, run
from bench.task import Task


def texts_of(task: Task) -> Texts:
    client = openai.OpenAI(base_url=task.url, api_key="none", max_retries=0)

    def texts(user: int) -> Iterator[str]:
        for chunk in client.chat.completions.create(**task.body(user)):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    return texts


if __name__ == "__main__":
    run(texts_of)
