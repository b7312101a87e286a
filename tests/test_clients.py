"""What the master makes of its workers' messages; the runner is told of by hand."""

import types
from typing import Any

from tokenswarm.clients import CLOSE, NOTHING, Clients


class Runner:
    """Workers by client id; `answers` are what each tells when it is asked to close."""

    def __init__(self, books: Clients, answers: dict[str, list[dict[str, Any]]], states: dict[str, str]) -> None:
        self.nodes = {name: types.SimpleNamespace(id=name, state=state) for name, state in states.items()}
        self.clients = types.SimpleNamespace(all=list(self.nodes.values()), get=self.nodes.get)
        self._books, self._answers = books, answers

    def send_message(self, message: str, client_id: str) -> None:
        assert message == CLOSE
        for told in self._answers.get(client_id, []):
            self._books.told(client_id, told)


def told(worker: str, rows: int | None) -> dict[str, Any]:
    return {"worker": worker, "pid": 1, "clock_offset_s": 0.0, "rows": rows}


def test_all_have_closed() -> None:
    books = Clients()
    books.told("a", told("w0", None))
    # "b" was told to start a moment ago: it says that it records when it is asked to close
    answers = {"a": [told("w0", 5), NOTHING], "b": [told("w1", None), told("w1", 0), NOTHING]}
    books.close(Runner(books, answers, {"a": "running", "b": "ready"}))
    assert not books.all_lost
    assert {name: (client["rows"], client["lost"]) for name, client in books.as_dict().items()} == {
        "w0": (5, False),
        "w1": (0, False),
    }


def test_one_that_is_lost_is_not_waited_for() -> None:
    books = Clients()
    for client_id, worker in (("a", "w0"), ("b", "w1")):
        books.told(client_id, told(worker, None))
    books.close(Runner(books, {"a": [told("w0", 5), NOTHING]}, {"a": "running", "b": "missing"}))
    assert {name: client["lost"] for name, client in books.as_dict().items()} == {"w0": False, "w1": True}
    assert not books.all_lost


def test_all_lost() -> None:
    books = Clients()
    books.told("a", told("w0", None))
    books.close(Runner(books, {}, {"a": "missing"}))
    assert books.all_lost


def test_one_that_never_began_has_nothing_to_close() -> None:
    books = Clients()
    books.close(Runner(books, {"a": [NOTHING]}, {"a": "ready"}))
    assert not books.all_lost
    assert books.as_dict() == {}
