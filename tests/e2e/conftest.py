"""One simulator for all tests that only need a server that answers."""

from collections.abc import Iterator

import pytest

from tests.servers import Server, simulator_server


@pytest.fixture(scope="session")
def simulator() -> Iterator[Server]:
    with simulator_server("--answer-tokens", "200", "--base-s", "0.02") as server:
        yield server
