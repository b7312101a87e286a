"""For all tests: Locust patches a process when it is imported; this one, half way through collecting, must stay as it is."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"
import locust  # noqa: F401

del os.environ["LOCUST_SKIP_MONKEY_PATCH"]  # the processes that tests start are to be patched as a user's are


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium (playwright's `Browser`). Of one module: while it is open, no other event loop can run in here."""
    from tests.chromium import chromium

    with chromium() as started:
        yield started
