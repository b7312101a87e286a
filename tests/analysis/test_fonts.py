"""Names in any script: drawn where a font has them, never as boxes, never with a complaint."""

import warnings
from pathlib import Path

import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure
from run_on_paper import ok, write_run

from analysis import fonts, plots
from analysis.pipeline import analyse

CHINESE = "通义-72B"
NEW = "Made Here"


@pytest.fixture
def a_font(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The family of a font that has 通 and 义, installed while the test lasts."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    builder = FontBuilder(1000, isTTF=True)
    glyphs = [".notdef", "one", "two"]
    builder.setupGlyphOrder(glyphs)
    builder.setupCharacterMap({ord("通"): "one", ord("义"): "two"})
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for point in ((500, 0), (500, 700), (0, 700)):
        pen.lineTo(point)
    pen.closePath()
    builder.setupGlyf(dict.fromkeys(glyphs, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(glyphs, (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": NEW, "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    path = tmp_path / "made.ttf"
    builder.save(path)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", list(font_manager.fontManager.ttflist))
    font_manager.fontManager.addfont(path)
    fonts.having.cache_clear()
    return NEW


@pytest.fixture(autouse=True)
def _forget() -> None:
    fonts.having.cache_clear()


@pytest.fixture
def no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the fonts that matplotlib brings."""
    own = [one for one in font_manager.fontManager.ttflist if one.name.startswith(("DejaVu", "STIX", "cm"))]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)


def with_text(text: str) -> Figure:
    figure = Figure()
    figure.text(0, 0, text)
    return figure


def test_a_font_that_has_the_characters_is_taken(no_other: None, a_font: str) -> None:
    figure = with_text(CHINESE)
    with fonts.fitting(figure, stays_text=False):
        assert figure.texts[0].get_fontfamily() == [fonts.FAMILY, a_font]
        assert figure.texts[0].get_text() == CHINESE
    assert figure.texts[0].get_fontfamily() != [fonts.FAMILY, a_font]


def test_what_no_font_has_is_left_out_of_a_picture_and_stays_in_a_text(no_other: None) -> None:
    figure = with_text(f"{CHINESE} (模型)\nµs")
    with fonts.fitting(figure, stays_text=False):
        assert figure.texts[0].get_text() == "…-72B (…)\nµs"
    with fonts.fitting(figure, stays_text=True):
        assert figure.texts[0].get_text() == f"{CHINESE} (模型)\nµs"
    assert fonts.having(frozenset("通x"))[1] == frozenset("通")


def test_latin_text_is_left_alone() -> None:
    figure = with_text("Qwen3 – 5 µs ≥ é")
    family = figure.texts[0].get_fontfamily()
    with fonts.fitting(figure, stays_text=False):
        assert figure.texts[0].get_fontfamily() == family


def test_the_curve_of_any_model_is_drawn_quietly(tmp_path: Path) -> None:
    name = "通义千问 모델 モデル نموذج 🔥"
    found = analyse(write_run(tmp_path, [ok("a", 1, [10, 20])], model=name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, svg = plots.write(found.summary, found.run.info, tmp_path)
    assert name in svg.read_text(encoding="utf-8")
