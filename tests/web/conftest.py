"""One simulator for all tests of pages."""

from collections.abc import Iterator

import pytest

from tests.servers import Server, simulator_server


@pytest.fixture(scope="session")
def simulator() -> Iterator[Server]:
    with simulator_server("--answer-tokens", "6", "--base-s", "0.01") as server:
        yield server
