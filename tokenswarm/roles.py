"""Which part a Locust process has. One that is neither does both: it owns the run and has the users."""

from typing import Any


def is_worker(environment: Any) -> bool:
    return bool(environment.parsed_options.worker)


def is_master(environment: Any) -> bool:
    return bool(environment.parsed_options.master)
