"""What a server says of itself: its /metrics, asked once a second by the master, kept in server.csv and shown live.

vLLM's and llama.cpp's names are known. A server without such a page is asked once and then left alone. It is asked over
connections of its own, by a greenlet of its own: nothing waits for it.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import gevent
import httpx2
import openai
from prometheus_client.parser import text_string_to_metric_families

from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.rowfile import RecordingError, RowFile
from tokenswarm.server_row import COLUMNS as COLUMNS
from tokenswarm.server_row import FILE as FILE
from tokenswarm.server_row import FULLEST as FULLEST
from tokenswarm.server_row import ServerRow as ServerRow

EVERY_S = 1.0
LIMIT_S = 5.0  # for one answer: a server under load takes its time


NAMES = {  # sample of /metrics → column
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_ratio",
    "vllm:gpu_cache_usage_perc": "kv_cache_ratio",  # its older name
    "vllm:num_preemptions_total": "preemptions_total",
    "vllm:prompt_tokens_total": "prompt_tokens_total",
    "vllm:generation_tokens_total": "generation_tokens_total",
    "vllm:prefix_cache_queries_total": "prefix_queries_total",
    "vllm:prefix_cache_hits_total": "prefix_hits_total",
    "llamacpp:requests_processing": "running",
    "llamacpp:requests_deferred": "waiting",
    "llamacpp:kv_cache_usage_ratio": "kv_cache_ratio",  # older versions only
    "llamacpp:prompt_tokens_total": "prompt_tokens_total",
    "llamacpp:tokens_predicted_total": "generation_tokens_total",
}


def read_metrics(text: str) -> dict[str, float]:
    """Column → value, of the text of a /metrics page; empty where it holds nothing that is known here."""
    # histograms make most of such a page: only the lines that are needed are parsed
    wanted = "\n".join(line for line in text.splitlines() if line.split("{", 1)[0].split(" ", 1)[0] in NAMES)
    found: dict[str, float] = {}
    with contextlib.suppress(ValueError):  # no metrics page after all
        for family in text_string_to_metric_families(wanted + "\n"):
            for sample in family.samples:
                column = NAMES[sample.name]
                both = (found.get(column, 0.0), sample.value)
                found[column] = max(both) if column == FULLEST else sum(both)
    return found


def to_csv(row: ServerRow) -> str:
    cells = (getattr(row, name) for name in COLUMNS)
    return ",".join("" if cell is None else f"{cell:.6f}" if isinstance(cell, float) else cell for cell in cells) + "\n"


class Server:
    """Asks every target of `settings` until it is closed. `latest`: target → its last row, if it has any."""

    def __init__(self, settings: ChatSettings, folder: Path) -> None:
        self.latest: dict[str, ServerRow] = {}
        self._path = folder / FILE
        self._file: RowFile | None = None
        self._greenlets = [
            gevent.spawn(self._ask, dataclasses.replace(settings, targets=(target,), key_command=None))
            for target in settings.targets
        ]

    def _ask(self, settings: ChatSettings) -> None:
        logging.getLogger(httpx2.__name__).setLevel(logging.WARNING)  # a line a second says nothing
        target = settings.targets[0]
        client = ChatClient(settings, worker="server")
        try:
            for values in self._values(client, f"{target.root_url}/metrics"):
                if values is not None:
                    self._keep(ServerRow(at=time.time(), target=target.root_url, **values))
        finally:
            client.close(0.0)

    def _values(self, client: ChatClient, url: str) -> Iterator[dict[str, float] | None]:
        """What it says, about every EVERY_S; None where it did not answer. Ends where it says nothing that is known."""
        due_s = time.monotonic()
        while True:
            try:
                response = client.openai.with_options(timeout=LIMIT_S).get(url, cast_to=httpx2.Response)
                values = read_metrics(response.text)
                if not values:
                    return
                yield values
            except openai.APIStatusError:
                return
            except openai.APIConnectionError:
                yield None
            due_s = max(due_s + EVERY_S, time.monotonic())
            gevent.sleep(due_s - time.monotonic())

    def _keep(self, row: ServerRow) -> None:
        self.latest[row.target] = row
        with contextlib.suppress(RecordingError):  # a full disk is found out by the rows that matter
            if self._file is None:
                self._file = RowFile(self._path, ",".join(COLUMNS) + "\n")
            self._file.append(to_csv(row))

    def total(self, column: str) -> float | None:
        """Of all targets together: their sum, of the KV cache the fullest; None where none says it."""
        values = [value for row in self.latest.values() if (value := getattr(row, column)) is not None]
        if not values:
            return None
        return max(values) if column == FULLEST else sum(values)

    def close(self) -> None:
        gevent.killall(self._greenlets)
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(RecordingError):
                file.close()
