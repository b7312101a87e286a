"""Simulators for the tests, each in its own process."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served_simulator import FAST, Running, started


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One fast simulator for the tests of a module."""
    with started(tmp_path_factory.mktemp("simulator"), *FAST) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., contextlib.AbstractContextManager[Running]]:
    """Starts a simulator with flags of the test's own."""
    return lambda *flags: started(tmp_path, *flags)
