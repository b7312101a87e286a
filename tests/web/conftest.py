"""One simulator and one browser for all tests of pages."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.servers import Server, simulator_server
from tests.web.browser import chromium


@pytest.fixture(scope="session")
def simulator() -> Iterator[Server]:
    with simulator_server("--answer-tokens", "6", "--base-s", "0.01") as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
