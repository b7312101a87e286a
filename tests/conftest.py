"""Locust patches a process when it is imported; this one, half way through collecting tests, must stay as it is."""

import os

os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"
import locust  # noqa: F401

del os.environ["LOCUST_SKIP_MONKEY_PATCH"]  # the processes that tests start are to be patched as a user's are
