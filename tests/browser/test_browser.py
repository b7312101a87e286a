"""The pages in a real browser: opened from the disk, without a network, by keyboard, small, dark, and on paper."""

import time
from pathlib import Path
from typing import Any

import pytest
from nasty_run import nasty_run

from analysis import compare, compare_report, findings, pipeline, report, summary

DRAWN_S = 60  # bounds the wait: a shared machine may be slow
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """report.html and compare.html of runs whose every text is hostile."""
    folder = tmp_path_factory.mktemp("runs")
    runs = [nasty_run(folder / name) for name in ("first", "second")]
    found = pipeline.analyse(runs[0])
    summary.write(found.summary, runs[0])
    page, _ = report.write(found, findings.findings(found))
    both = compare_report.write(compare.compared(runs), folder / compare.FILE)
    return {"report": page, "compare": both[0]}


class Seen:
    """A page and all that it said and asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.trouble: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self._console(message))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: (self.trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.trouble.append(f"{message.type}: {message.text}")


def until(page: Any, expression: str) -> None:
    """Waits for it from here: the page's own policy lets nobody evaluate texts inside it."""
    deadline = time.monotonic() + DRAWN_S
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"never so: {expression}"
        page.wait_for_timeout(50)


def opened(browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> Seen:
    seen = Seen(browser.new_page())
    seen.page.set_viewport_size({"width": width, "height": 900})
    seen.page.emulate_media(color_scheme=scheme)
    seen.page.goto(path.as_uri())
    until(seen.page, "document.documentElement.dataset.plots")
    assert seen.page.evaluate("document.documentElement.dataset.plots") == "drawn"
    return seen


INKED = """() => [...document.querySelectorAll('.plot')].map(place => {
  const within = root => [...root.querySelectorAll('*')].flatMap(
    one => [...(one.tagName === 'CANVAS' ? [one] : []), ...(one.shadowRoot ? within(one.shadowRoot) : [])]);
  const shades = one => {
    const copy = new OffscreenCanvas(one.width, one.height).getContext('2d', {willReadFrequently: true});
    copy.drawImage(one, 0, 0);
    return new Set(copy.getImageData(0, 0, one.width, one.height).data).size;
  };
  return [place.id, within(place).some(one => one.width && one.height && shades(one) > 8)];
})"""


@pytest.mark.parametrize("name", ["report", "compare"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_it_opens_whole_and_quiet(browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    seen = opened(browser, pages[name], width, scheme)
    until(seen.page, f"({INKED})().every(([, inked]) => inked)")
    inked = dict(seen.page.evaluate(INKED))
    assert len(inked) >= (16 if name == "report" else 8)
    assert all(inked.values()), inked
    assert seen.trouble == []
    assert [url for url in seen.asked if not url.startswith("data:")] == [pages[name].as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("b.evil, img, iframe").count() == 0
    seen.page.close()


def test_no_label_stands_on_another(browser: Any, pages: dict[str, Path]) -> None:
    """Of texts of the page itself; those inside a plot are looked at by eye."""
    seen = opened(browser, pages["report"], 400)
    cut = seen.page.evaluate(
        """() => [...document.querySelectorAll('h1,h2,h3,figcaption,.tiles .value,.tiles .label,.chip,.legend *')]
        .filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
        .map(one => one.outerHTML.slice(0, 80))"""
    )
    assert cut == []
    wide = seen.page.evaluate(
        """() => [...document.querySelectorAll('table')]
        .filter(one => !one.closest('.box') && one.getBoundingClientRect().right > innerWidth).length"""
    )
    assert wide == 0
    seen.page.close()


def test_a_question_mark_opens_its_definition_by_keyboard(browser: Any, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["report"])
    ask = seen.page.locator("#curves figcaption .q").first
    text = seen.page.locator("#def-ttft")
    assert not text.is_visible()
    ask.focus()
    seen.page.keyboard.press("Enter")
    assert text.is_visible()
    assert "arrival of the first chunk" in text.inner_text()
    seen.page.keyboard.press("Escape")
    assert not text.is_visible()
    reached = set()
    seen.page.locator("nav a").last.focus()
    for _ in range(12):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate("document.activeElement.className"))
    assert "q" in reached
    seen.page.close()


def test_every_question_mark_has_its_definition(browser: Any, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["report"])
    marks = seen.page.evaluate(
        "() => [...document.querySelectorAll('.q')].map(one => !!document.getElementById(one.getAttribute('popovertarget')))"
    )
    assert len(marks) > 30
    assert all(marks)
    bare = seen.page.evaluate(
        """() => [...document.querySelectorAll('#curves figcaption, .tiles li, #table [scope=rowgroup]')]
        .filter(one => !one.querySelector('.q')).map(one => one.innerText)"""
    )
    assert [text.strip() for text in bare if text.strip() not in ("Throughput", "Requests")] == []
    seen.page.close()


def test_a_legend_hides_lines(browser: Any, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["report"])
    count = """() => Bokeh.documents.flatMap(one => [...one._all_models.values()])
        .filter(one => one.tags.includes('p95') && one.visible).length"""
    assert seen.page.evaluate(count) > 0
    seen.page.locator(".legend button[data-tag=p95]").click()
    assert seen.page.evaluate(count) == 0
    assert seen.page.locator(".legend button[data-tag=p95]").get_attribute("aria-pressed") == "false"
    assert seen.trouble == []
    seen.page.close()


PAPER = "getComputedStyle(document.body).backgroundColor"
TICKS = "Bokeh.documents[0].roots()[0].left[0].major_label_text_color"


def test_dark_reaches_page_and_plots_also_when_it_changes(browser: Any, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["report"], scheme="dark")
    assert seen.page.evaluate(PAPER) == "rgb(13, 17, 23)"
    ticks = "JSON.stringify(" + TICKS + ")"
    dark = seen.page.evaluate(ticks)
    assert "#9aa4af" in dark
    seen.page.emulate_media(color_scheme="light")
    until(seen.page, f"{ticks} !== {dark!r}")
    assert "#57606a" in seen.page.evaluate(ticks)
    assert seen.page.evaluate(PAPER) == "rgb(244, 246, 248)"
    seen.page.emulate_media(color_scheme="dark")
    until(seen.page, f"{ticks} === {dark!r}")
    assert seen.trouble == []
    seen.page.close()


def test_on_paper_plots_are_there_and_nothing_is_cut(browser: Any, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["report"], scheme="dark")
    until(seen.page, f"({INKED})().every(([, inked]) => inked)")
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    seen.page.emulate_media(media="print", color_scheme="dark")
    seen.page.set_viewport_size({"width": 700, "height": 1000})
    places = seen.page.evaluate("() => [...document.querySelectorAll('.plot')].length")
    copies = seen.page.evaluate(
        "() => [...document.querySelectorAll('.plot > canvas')].map(one => one.getBoundingClientRect().right)"
    )
    assert len(copies) == places
    assert 0 < max(copies) <= 700
    assert seen.page.evaluate(PAPER) == "rgb(255, 255, 255)"
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 700
    assert seen.trouble == []
    seen.page.close()


def test_the_data_can_be_saved(browser: Any, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages["report"])
    with seen.page.expect_download() as saving:
        seen.page.locator(".downloads a").first.click()
    saved = saving.value
    assert saved.suggested_filename == "summary.csv"
    assert Path(saved.path()).read_bytes() == (pages["report"].parent / "summary.csv").read_bytes()
    seen.page.close()
