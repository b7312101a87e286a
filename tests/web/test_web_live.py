"""A person at the page: enters a mistake, starts the staircase, watches the curve, reloads, stops, starts again."""

import csv
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from analysis import names
from tests.chromium import open_page
from tests.servers import Server
from tests.web.ui import Ui, locust_ui
from tokenswarm.live_figures import SHOWN
from tokenswarm.run_info import RunState
from tokenswarm.servers import COLUMNS, FILE

TOLERANCE = 0.02


def choose(page: Page, **fields: str) -> None:
    """Fill Locust's form: our options are behind "Custom parameters"."""
    page.select_option("select[name=shapeClass]", "StepLoad")
    for name, value in fields.items():
        field = page.locator(f"input[name={name}]")
        if not field.is_visible():
            page.get_by_text("Custom parameters").click()
        field.fill(value)


def start(page: Page) -> None:
    page.get_by_role("button", name="Start", exact=False).last.click()


def points(page: Page) -> int:
    return int(page.locator("#curve").get_attribute("data-points") or 0)


def summary(ui: Ui, run: str) -> list[dict[str, str]]:
    with open(ui.results / run / "summary.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_staircase_from_the_form(tmp_path: Path, simulator: Server, browser: Browser) -> None:
    errors: list[str] = []
    with locust_ui(tmp_path, simulator.base_url, "--slo=ttft_p50=10s", "--slo=error_ratio=1%") as ui:
        page = open_page(browser, errors)
        page.goto(ui.url)
        choose(page, steps="2,six", runName="first")
        start(page)
        expect(page.get_by_role("alert").filter(has_text="six")).to_contain_text("no number of users")
        page.locator("input[name=steps]").fill("2,6")
        start(page)
        page.get_by_role("button", name="Stop").wait_for()
        see_the_tab(page, ui)
        page.goto(f"{ui.url}/tokenswarm/")
        expect(page.locator("#title")).to_have_text("first")
        expect(page.locator("#curve")).to_have_attribute("data-points", "2")
        ui.ended()
        expect(page.locator("#phase")).to_contain_text(RunState.COMPLETE)
        drawn = page.locator("#ttft path.p95").get_attribute("d")
        page.reload()
        expect(page.locator("#curve")).to_have_attribute("data-points", "2")
        assert page.locator("#ttft path.p95").get_attribute("d") == drawn, "the history is gone"
        expect(page.locator("#answer")).to_contain_text(
            # on a busy machine the client's health may rule the step out, and the page must say that instead
            re.compile("met up to 6 users|The step of 6 users is invalid")
        )
        fits(page)
        agrees_with_the_report(page, ui)
        stopped_and_started_again(page, ui)
    assert [text for text in errors if "404" not in text] == []


def see_the_tab(page: Page, ui: Ui) -> None:
    page.get_by_role("tab", name="LLM").click()
    expect(page.get_by_role("cell", name="TTFT")).to_be_visible()
    ui.run.wait_until(lambda: "ms" in page.get_by_role("row").filter(has_text="TTFT").inner_text(), "TTFT in the tab")
    page.get_by_role("link", name="LLM live charts").click()
    page.wait_for_url("**/tokenswarm/")


def fits(page: Page) -> None:
    """Also on a phone nothing is wider than the page."""
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    page.set_viewport_size({"width": 1440, "height": 900})


def agrees_with_the_report(page: Page, ui: Ui) -> None:
    with page.expect_navigation():
        page.get_by_role("link", name="Report of this run").click()
    expect(page.locator("h1")).to_be_visible()
    page.go_back()
    told, report = ui.now()["steps"], summary(ui, "first")
    assert len(told) == len(report) == 2
    compared = 0
    for step, row in zip(told, report, strict=True):
        for metric in SHOWN:
            for which in names.QUANTILES:
                if expected := row[names.stat(metric, which)]:
                    compared += 1
                    assert step["latencies"][metric][which] == pytest.approx(float(expected), rel=TOLERANCE)
        for name in (names.OUTPUT_TOKENS_PER_S, names.REQUESTS_PER_S, names.OBSERVED_CONCURRENCY):
            assert step[name] == pytest.approx(float(row[name]), rel=TOLERANCE, abs=0.05), name
        assert step["errors"] == 0
    assert report[1][names.stat(names.TTFT, "p95")], "too few samples to compare the p95"
    assert compared >= 2 * len(SHOWN)
    with open(ui.results / "first" / FILE, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert max(float(row["running"]) for row in rows) <= 6


def stopped_and_started_again(page: Page, ui: Ui) -> None:
    assert ui.start(run_name="first")["message"].endswith("nothing was changed.")
    assert ui.start(run_name="second", step_time="60s")["success"]
    page.goto(f"{ui.url}/tokenswarm/")
    expect(page.locator("#title")).to_have_text("second")
    assert points(page) == 0
    expect(page.locator("#tokens path")).to_have_attribute("d", re.compile("L"))
    assert not ui.start()["success"], "a running staircase is not turned into users by hand"
    ui.post("/stop")
    expect(page.locator("#phase")).to_contain_text(RunState.INTERRUPTED)
    ui.get("/stats/requests")
    ui.post("/stats/reset")
    expect(page.locator("#tokens path")).to_have_attribute("d", "")
    assert ui.start(run_name="third", steps="1", step_time="2s", warmup="0s")["success"]
    expect(page.locator("#title")).to_have_text("third")
    assert ui.ended()["run"]["state"] == RunState.COMPLETE
