"""What the page hands to Bokeh's script, read back by Bokeh's own models: they know every property and its values."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bokeh.document import Document
from bokeh.resources import Resources

from analysis import bokeh_json, compare, compare_plots, findings, page, pipeline, report
from analysis.bokeh_json import field, mapping, model, source, value

GOLDEN = Path(__file__).parent / "golden" / "run"


def read_by_bokeh(made: dict[str, Any]) -> Document:
    """Raises where a model or property does not exist, or a value is none of that property."""
    log, unknown = logging.getLogger("bokeh.core.has_props"), Unknown()
    log.addHandler(unknown)
    try:
        return Document.from_json(json.loads(json.dumps(made, allow_nan=False)))
    finally:
        log.removeHandler(unknown)


class Unknown(logging.Handler):
    """Bokeh merely warns of a property that it does not know."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AttributeError(record.getMessage())


def plots_of_report() -> list[Any]:
    found = pipeline.analyse(GOLDEN)
    _, plots = report._context(found, findings.findings(found))
    return plots


def plots_of_comparison() -> list[Any]:
    return compare_plots.curves(compare.compared([GOLDEN, GOLDEN]))


@pytest.mark.parametrize("make", [plots_of_report, plots_of_comparison])
def test_bokeh_knows_all_that_is_written(make: Any) -> None:
    documents, (places,) = page._documents(make())
    read = read_by_bokeh(documents["plots"])
    assert [root.name for root in read.roots] == list(places["roots"].values())
    assert [root.id for root in read.roots] == places["root_ids"]
    drawn = [renderer for root in read.roots for renderer in root.renderers]  # type: ignore[attr-defined]
    assert len(drawn) > 20
    for renderer in drawn:  # every column that a glyph names is there
        named = {one.field for one in renderer.glyph.properties_with_values().values() if hasattr(one, "field")}
        assert named <= set(renderer.data_source.data)


@pytest.mark.parametrize("wrong", [{"line_colour": "#000000"}, {"line_width": "thick"}])
def test_bokeh_refuses_what_it_does_not_know(wrong: dict[str, str]) -> None:
    made, _ = bokeh_json.document([model("Line", **wrong)])
    with pytest.raises((AttributeError, ValueError)):
        read_by_bokeh(made)


def test_columns_arrive_as_they_were() -> None:
    columns = {"x": np.array([0.5, np.nan, 3e9]), "n": np.array([1, 2, 3]), "says": ["a", "<b>", "ä"]}
    glyph = model("Text", x=field("x"), y=field("n"), text=field("says"), text_color=value("#000000"))
    made, _ = bokeh_json.document([model("GlyphRenderer", data_source=source(columns), glyph=glyph)])
    data = read_by_bokeh(made).roots[0].data_source.data  # type: ignore[attr-defined]
    np.testing.assert_array_equal(data["x"], columns["x"].astype(np.float32))
    np.testing.assert_array_equal(data["n"], columns["n"])
    assert list(data["says"]) == columns["says"]


def test_one_model_in_two_places_is_one() -> None:
    shared = model("Range1d", start=0, end=1)
    made, ids = bokeh_json.document([model("Plot", x_range=shared), model("Plot", x_range=shared)])
    assert made["roots"][1]["attributes"]["x_range"] == {"id": made["roots"][0]["attributes"]["x_range"]["id"]}
    first, second = read_by_bokeh(made).roots
    assert first.x_range is second.x_range  # type: ignore[attr-defined]
    assert ids == [first.id, second.id]


def test_a_mapping_keeps_keys_that_are_numbers() -> None:
    made, _ = bokeh_json.document([model("LinearAxis", major_label_overrides=mapping([(0.5, "half")]))])
    assert read_by_bokeh(made).roots[0].major_label_overrides == {0.5: "half"}  # type: ignore[attr-defined]


def test_the_script_is_bokehs_own() -> None:
    theirs = Resources(mode="inline", components=["bokeh"]).js_raw
    assert bokeh_json.script().strip() in theirs[0]


def test_making_a_report_imports_no_model_of_bokeh() -> None:
    code = (
        "import pathlib, sys; from analysis import findings, pipeline, report\n"
        f"found = pipeline.analyse(pathlib.Path({str(GOLDEN)!r})); report.html(found, findings.findings(found))\n"
        "print('bokeh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False"]
