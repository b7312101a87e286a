"""A headless Chromium for tests, skipped where there is none; on CI its absence is a failure."""

import contextlib
import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
LIMIT_MS = 60_000


def need_chromium() -> None:
    if os.access(CHROMIUM, os.X_OK):
        return
    reason = f"needs Chromium ({CHROMIUM}, or $CHROMIUM): apt-get install chromium"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    need_chromium()
    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def open_page(browser: Browser, errors: list[str]) -> Page:
    """A page; what its console complains of, and requests that left this machine, go into `errors`."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(LIMIT_MS)
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda sent: None if is_local(sent.url) else errors.append(f"asked {sent.url}"))
    return page


def is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "about:"))
