"""What the master makes of its workers' messages; the runner is told of by hand."""

import types
from typing import Any

import pytest

from tokenswarm import clients
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


def kept(worker: str, rows: int | None, why: str | None = None) -> dict[str, Any]:
    """Of a worker that records on another machine."""
    reason = {} if why is None else {"why_kept": why}
    return {**told(worker, rows), "kept_at": f"box:/own/r-{worker}", **reason}


def test_rows_that_did_not_come_over_are_lost_and_said() -> None:
    books = Clients()
    for client_id, worker in (("a", "w0"), ("b", "w1"), ("c", "w2")):
        books.told(client_id, kept(worker, None))
    answers = {"a": [told("w0", 5), NOTHING], "b": [kept("w1", 7, "No room."), NOTHING]}
    books.close(Runner(books, answers, {"a": "running", "b": "running", "c": "missing"}))
    assert not books.all_lost
    assert {name: (client["rows"], client["lost"]) for name, client in books.as_dict().items()} == {
        "w0": (5, False),
        "w1": (7, True),
        "w2": (None, True),
    }
    assert "kept_at" not in books.as_dict()["w0"]
    gone, refused = books.missing()
    assert "worker w2" in gone
    assert "kept in box:/own/r-w2. It was gone before" in gone
    assert "kept in box:/own/r-w1. No room." in refused


def test_no_row_came_over() -> None:
    books = Clients()
    books.told("a", kept("w0", None))
    books.close(Runner(books, {"a": [kept("w0", 5, "No room."), NOTHING]}, {"a": "running"}))
    assert books.all_lost


class SlowRunner(Runner):
    """Locust knows nothing of "a" for now; with every look, a piece of its files comes, until all have come."""

    def __init__(self, books: Clients, pieces: int) -> None:
        super().__init__(books, {}, {})
        self.left = pieces
        self.clients = types.SimpleNamespace(all=[], get=self.look)

    def look(self, client_id: str) -> None:
        self.left -= 1
        if self.left > 0:
            self._books.heard(client_id)
        elif self.left == 0:
            self._books.told(client_id, told("w0", 5))


def test_who_hands_over_is_waited_for_as_long_as_pieces_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than the limit of closing, and while Locust does not know the worker between its `stop` and being ready."""
    monkeypatch.setattr(clients, "CLOSE_LIMIT_S", 1.0)
    books = Clients()
    books.told("a", kept("w0", None))
    books.told("a", kept("w0", None))  # its session is closed, more is to come
    books.close(SlowRunner(books, pieces=30))
    assert books.as_dict()["w0"]["rows"] == 5


def test_who_hands_over_no_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "UNKNOWN_LIMIT_S", 0.1)
    books = Clients()
    books.told("a", kept("w0", None))
    books.heard("a")
    runner = Runner(books, {}, {})
    books.close(runner)
    assert books.as_dict()["w0"]["lost"]
    assert books.lost(runner) == ["w0"]


def test_only_who_records_has_files() -> None:
    books = Clients()
    books.told("a", told("w0", None))
    assert (books.worker_of("a"), books.worker_of("b")) == ("w0", None)
    books.heard("b")
    books.close(Runner(books, {"a": [told("w0", 5), NOTHING]}, {"a": "running"}))  # and is not waited for
    assert books.worker_of("a") is None
