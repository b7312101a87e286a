"""Three workers, one of them killed: the page says so, the step's verdict says so, nothing is counted twice."""

import os
import signal
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.chromium import open_page
from tests.e2e.driving import outcomes, rows, run_json
from tests.servers import Server
from tests.web.ui import Ui, free_port, locust_ui
from tokenswarm.live_health import Level
from tokenswarm.record import Outcome


def test_a_worker_is_killed(tmp_path: Path, simulator: Server, browser: Browser) -> None:
    errors: list[str] = []
    port = free_port()
    flags = ("--processes=3", f"--prometheus-port={port}")
    with locust_ui(tmp_path, simulator.base_url, *flags, steps="6", step_time="20s") as ui:
        ui.run.wait_until(lambda: '"worker_count":3' in ui.get("/worker-count")[1].replace(" ", ""), "three workers")
        assert ui.start(run_name="r")["success"]
        page = open_page(browser, errors)
        page.goto(f"{ui.url}/tokenswarm/")
        ui.run.wait_until(lambda: is_measuring(ui), "figures of the step, of all three")
        worker, pid = worker_of(ui)
        os.kill(pid, signal.SIGKILL)
        expect(page.locator("#alarm")).to_contain_text(f"worker {worker}")
        expect(page.locator("#steps td.level")).to_have_text(Level.INVALID)
        expect(page.locator("#why")).to_contain_text(f"{worker} was lost")
        exported = scraped(port)
        assert exported["tokenswarm_workers_lost"] == 1
        assert exported['tokenswarm_ttft_seconds{quantile="0.95"}'] > 0
        now = ui.ended()
        folder = tmp_path / "r"
        assert run_json(folder)["clients"][worker]["lost"]
        found = [row for row in rows(folder) if row.worker != "preflight"]
        assert len({row.request_id for row in found}) == len(found)
        told = now["total"]
        # what the lost worker did not come to tell is missing, and nothing else
        kept = {row.request_id for row in found if row.worker != worker and row.outcome is Outcome.OK}
        assert len(kept) <= told["ok"] <= outcomes(folder)[Outcome.OK]
        assert told["errors"] == 0
        assert sum(one["lost"] for one in now["workers"]) == 1
    assert errors == []


def scraped(port: int) -> dict[str, float]:
    """Sample → value, of the page for Prometheus."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def is_measuring(ui: Ui) -> bool:
    now = ui.now()
    return len(now["workers"]) == 3 and bool(now["steps"]) and bool(now["steps"][0].get("ok"))


def worker_of(ui: Ui) -> tuple[str, int]:
    """A worker and its process: the one that holds its file open."""
    for process in ui.run.family():
        names = [Path(file.path).name for file in process.open_files()]
        if "requests-w1.csv" in names:
            return "w1", process.pid
    raise AssertionError("no process writes for w1")
