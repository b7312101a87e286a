"""report.html and report.md: whole, small, first things first, and nobody's markup but our own."""

import base64
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from run_on_paper import failed, health, ok, step, told, write_run

from analysis import findings, page, report, report_facts, report_markdown, report_tables, report_words, summary
from analysis.__main__ import main
from analysis.finding import Finding, FindingKind, Severity
from analysis.pipeline import Analysis, analyse
from tokenswarm.metrics import METRICS
from tokenswarm.record import ErrorClass

EVIL = "</script><script>hacked()</script><b>&amp;</b> | [x](http://evil.example) `code` @everyone"


def run_of(folder: Path, many: int = 1, **about: object) -> Analysis:
    """Two steps; the second fails by half with the server's own hostile words. `summary.csv` is written."""
    rows = [ok("w", -0.1, [10])]
    rows += [ok(f"a{i}", i / (8 * many), [30 + i % 7, 50 + i % 11, 120], user="u0") for i in range(80 * many)]
    rows += [ok(f"b{i}", 10 + i / 20, [60 + i % 13, 100, 240], user=f"u{i % 5}") for i in range(100)]
    rows += [failed(f"c{i}", 15 + i / 20, 4, detail=EVIL) for i in range(100)]
    steps = [step(1, 1, 0, 10, -0.2), step(2, 5, 10, 20)]
    healths = [health(second, users=(1, 5)[(second - 1) // 10]) for second in range(1, 21)]
    write_run(folder, rows, steps, healths, **about)
    found = analyse(folder)
    summary.write(found.summary, folder)
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Analysis, str]:
    """A run and its page without findings, made once: a page takes a second or two."""
    found = run_of(tmp_path_factory.mktemp("plain"))
    return found, report.html(found, [])


class Tags(HTMLParser):
    """Counts of elements, attributes that would load something, and texts by nearest id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "action", "data", "poster") and not (value or "").startswith(
                ("#", "data:", "./")
            ):
                self.loads.append(f"{tag} {name}={value}")
            assert not name.startswith("on"), f"{tag} {name}={value}"


def test_the_page_is_whole_small_and_loads_nothing(tmp_path: Path) -> None:
    found = run_of(tmp_path)
    pages = report.write(found, findings.findings(found))
    assert [path.name for path in pages] == ["report.html", "report.md"]
    text = pages[0].read_text()
    assert len(text.encode()) <= report.LIMIT_BYTES
    assert Tags(text).loads == []
    assert "default-src 'none'" in html.unescape(text)
    assert not list(tmp_path.glob("*.part"))


def test_hostile_texts_stay_texts(tmp_path: Path, plain: tuple[Analysis, str]) -> None:
    about = {"model": EVIL, "run_id": EVIL, "target": EVIL, "conditions": {EVIL: EVIL}, "options": {"o": EVIL}}
    found = run_of(tmp_path, **about)
    told = [Finding(FindingKind.CAPACITY, EVIL, {})]
    text = report.html(found, told)
    assert "hacked()" in text
    assert "<script>hacked" not in text
    tags = Tags(text).tags
    assert tags.count("script") == 5  # three of data, the library, our own
    assert tags.count("b") == Tags(plain[1]).tags.count("b")


def test_only_the_scripts_that_the_policy_names_may_run(plain: tuple[Analysis, str]) -> None:
    text = plain[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert page._hash(script) in html.unescape(text[:2000])


def test_data_in_a_script_cannot_close_it() -> None:
    assert "</" not in page._json({"x": "</script><!--"})


def test_findings_come_first_and_an_invalid_step_before_all(tmp_path: Path) -> None:
    found = run_of(tmp_path)
    told = [Finding(FindingKind.CAPACITY, "It carries 7 users.", {})]
    told.append(Finding(FindingKind.DISTRUST, "Doubt.", {}, Severity.WARNING))
    text = report.html(found, told)
    order = [
        text.index(mark) for mark in ("1 of 2 steps invalid", "<h1>", "It carries 7 users.", "Doubt.", 'id="verdicts"')
    ]
    assert order == sorted(order)
    lines = report_markdown.render(found, told).splitlines()
    assert lines[0].startswith("> ❌ 1 of 2 steps invalid (at 5 users)")
    assert "- It carries 7 users." in lines


def test_every_metric_of_the_page_has_its_definition(plain: tuple[Analysis, str]) -> None:
    found, text = plain
    asked = set(re.findall(r'popovertarget="def-([a-z0-9_]+)"', text))
    given = set(re.findall(r'popover id="def-([a-z0-9_]+)"', text))
    assert asked <= given
    assert {"ttft", "itl", "tpot", "e2e", "output_tokens_per_s", "error_ratio", "interval", "verdict"} <= asked
    assert html.escape(METRICS["ttft"].text, quote=False) in text
    for section in report_tables.sections(found.summary):
        for line in section.lines:
            assert section.term or line.term or line.label in ("max", "samples")
            assert (line.term or section.term) in report_words.definitions()


def test_downloads_are_inside_while_they_are_small(plain: tuple[Analysis, str]) -> None:
    found, text = plain
    embedded = re.findall(r'href="data:text/csv;charset=utf-8;base64,([^"]+)" download="([^"]+)"', text)
    assert {name: base64.b64decode(data) for data, name in embedded} == {
        name: (found.run.folder / name).read_bytes() for name in ("summary.csv", "steps.csv", "requests-w1.csv")
    }


def test_large_files_stay_beside_and_are_said_to(plain: tuple[Analysis, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "EMBED_BYTES", 100)
    found = {one.name: one for one in report.downloads(plain[0].run.folder, room=10**6)}
    assert found["summary.csv"].embedded
    assert not found["requests-w1.csv"].embedded
    assert found["requests-w1.csv"].href == "./requests-w1.csv"
    assert "beside this file" in found["requests-w1.csv"].note


def test_a_page_without_room_embeds_no_requests(plain: tuple[Analysis, str], monkeypatch: pytest.MonkeyPatch) -> None:
    found, whole = plain
    bare = len(whole.encode()) - (found.run.folder / "requests-w1.csv").stat().st_size
    monkeypatch.setattr(report, "LIMIT_BYTES", bare)
    text = report.html(found, [])
    assert len(text.encode()) <= bare
    assert 'href="./requests-w1.csv"' in text


def test_many_requests_still_fit(tmp_path: Path) -> None:
    """9,600 requests in one step: dots are thinned, which the page says."""
    text = report.html(run_of(tmp_path, many=120), [])
    assert len(text.encode()) < report.LIMIT_BYTES
    assert "every 4th request is a dot" in text


@pytest.mark.parametrize("rows", [0, 1])
def test_runs_with_next_to_nothing_have_a_report(tmp_path: Path, rows: int) -> None:
    found = analyse(write_run(tmp_path, [ok("a", 1, [5])][:rows]))
    text = report.html(found, findings.findings(found))
    assert "Findings" in text
    assert report_markdown.render(found, findings.findings(found)).startswith(">")


def test_a_run_without_steps_has_a_report_without_plots(tmp_path: Path) -> None:
    run = write_run(tmp_path, [])
    (run / "steps.csv").unlink()
    found = analyse(run)
    text = report.html(found, findings.findings(found))
    assert "No step was recorded" in text
    assert "script-src 'none'" in html.unescape(text)


def test_a_run_that_was_dead_throughout(tmp_path: Path) -> None:
    rows = [failed(f"a{i}", i / 4, 3, error_class=ErrorClass.CONNECT_FAILED, http_status=None) for i in range(38)]
    found = analyse(write_run(tmp_path, rows))
    text = report.html(found, findings.findings(found))
    assert "No step is valid evidence" in text
    assert "connect_failed" in text


def test_markdown_is_github_flavoured_and_escaped(tmp_path: Path) -> None:
    found = run_of(tmp_path, model=EVIL, conditions={"gpu": None, EVIL: EVIL})
    text = report_markdown.render(found, [Finding(FindingKind.KNEE, f"bends {EVIL}\n# not a heading", {})])
    for line in text.splitlines():
        assert not line.startswith("# ")
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)
            assert len(cells) >= 4
    assert "<script" not in text.replace(r"\<script", "")
    assert "@everyone" not in text
    assert "http://evil" not in text
    assert "*unknown*" in text
    rows = [line for line in text.splitlines() if line.startswith(("| 1 ", "| 5 "))]
    assert len(rows) == 2


def test_escaping_is_undone_by_nothing_but_reading() -> None:
    shown = report_markdown.escaped("a_b *c* <d> |e| [f](g) #1 ~h~ $i$ `j`\nk")
    assert re.sub(r"\\(.)", r"\1", shown) == "a_b *c* <d> |e| [f](g) #1 ~h~ $i$ `j` k"
    assert not re.search(r"(?<!\\)[_*<>|\[\]#~$`]", shown)


def test_errors_are_counted_by_class_with_their_words(tmp_path: Path) -> None:
    rows = [failed(f"a{i}", i, 5, detail="full") for i in range(3)] + [failed("b", 5, 5, detail="other")]
    rows += [failed("c", 6, 5, error_class=ErrorClass.CONNECT_FAILED, http_status=None, detail="refused")]
    kinds = report_facts.errors(analyse(write_run(tmp_path, rows)).requests)
    assert [(kind.count, kind.error_class, kind.status, kind.example) for kind in kinds] == [
        (4, "overloaded", "503", "full"),
        (1, "connect_failed", "", "refused"),
    ]


def test_unknown_conditions_are_named_as_such(tmp_path: Path) -> None:
    found = analyse(write_run(tmp_path, [ok("a", 1, [5])], conditions={"gpu": None, "engine": "vllm"}))
    said = dict(report_facts.conditions(found.run.info))
    assert said["gpu"] is None
    assert said["engine"] == "vllm"
    assert '<dt>gpu</dt><dd><span class="unknown">unknown</span>' in report.html(found, [])


def test_the_command_writes_page_text_and_a_picture_of_each_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_of(tmp_path, slos={"ttft_p95": 0.5})
    assert main(["report", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("- ")
    assert str(tmp_path / "report.html") in out
    pictures = {path.name for path in (tmp_path / "curves").iterdir()}
    curves = [
        "ttft",
        "itl",
        "tpot",
        "e2e",
        "output_tokens_per_s",
        "user_tokens_per_s",
        "error_ratio",
        "goodput_per_s",
        "frontier",
    ]
    assert pictures == {f"{name}.{kind}" for name in curves for kind in ("png", "svg")}
    assert all(path.stat().st_size > 1000 for path in (tmp_path / "curves").iterdir())


def test_slos_and_prices_of_the_command_reach_the_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_of(tmp_path)
    assert main(["report", str(tmp_path), "--slo", "ttft_p95=1ms"]) == 0
    assert "ttft_p95" in capsys.readouterr().out.split("report.html")[0]
    assert "ttft_p95" in (tmp_path / "report.md").read_text().replace("\\", "")
    assert found.run.info["slos"] == {}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["report", "nowhere"], "nowhere is no folder"),
        (["report", "nowhere", "--slo", "speed=1"], "speed"),
        (["report", "nowhere", "--gpus", "none", "--price-per-hour", "1"], "--gpus"),
        (["compare", "nowhere"], "compare needs two folders or more"),
        (["compare", "nowhere", "elsewhere"], "nowhere is no folder"),
    ],
)
def test_wrong_use_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.startswith("analysis: ")
    assert err.count("\n") == 1


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out = capsys.readouterr().out
    for command in ("summary", "report", "compare", "tokens", "examples:"):
        assert command in out


def test_what_the_server_said_is_drawn_over_the_run(tmp_path: Path) -> None:
    rows = [ok(f"r{i}", i / 10, [30, 60]) for i in range(90)]
    said = [told(s, running=1.0, waiting=s / 2, kv_cache_ratio=0.5) for s in range(10)]
    silent, half, whole = (
        report.html(analyse(write_run(tmp_path / name, rows, server=server)), [])
        for name, server in (("silent", []), ("half", [told(1, running=1.0), told(2, running=2.0)]), ("whole", said))
    )
    assert [("plot-time-server" in page, "plot-time-cache" in page) for page in (silent, half, whole)] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    assert 'download="server.csv"' in whole
    assert ["KV cache, most" in page for page in (silent, half, whole)] == [False, False, True]
    assert ["waiting, mean" in page for page in (silent, half, whole)] == [False, False, True]


def test_a_dead_server_fills_no_page_with_dashes(tmp_path: Path) -> None:
    page = report.html(analyse(write_run(tmp_path, [failed(f"f{i}", i / 10, 3) for i in range(90)])), [])
    assert "samples" not in page[page.index('id="table"') : page.index('id="errors"')]


def test_how_a_run_ended_is_said_once_and_first(tmp_path: Path) -> None:
    scenario = {"name": "s", "steps": [1, 5], "step_time_s": 10, "warmup_s": 0}
    found = analyse(write_run(tmp_path, [ok("a", 1, [10])], state="interrupted", scenario=scenario))
    shown = report.html(found, findings.findings(found))
    said = "This run was interrupted. Figures are of what was recorded. Never begun: 5 users."
    assert shown.count(said) == 1
    assert shown.index(said) < shown.index("card findings")
