"""One self-contained HTML file: a template, the style, the plotting library and the plots' data, all inside it.

Texts of servers and people are data: the templates escape everything, and the page's own policy runs no script but the
two whose hashes it names, so that nothing that slipped through could act.
"""

import base64
import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import bokeh_json, figure
from analysis.report_curves import Plot
from analysis.report_theme import dark, step_colors
from analysis.report_words import definitions
from tokenswarm import __version__
from tokenswarm.metrics import DEFINITIONS_VERSION

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"


@dataclasses.dataclass(frozen=True, slots=True)
class Scripts:
    """What draws the plots: the library, ours, and Bokeh's JSON; all empty where there is no plot."""

    library: str = ""
    ours: str = ""
    documents: str = ""
    places: str = ""


def scripts(plots: Sequence[Plot]) -> Scripts:
    """`plots`: every plot that the template places; each can be handed in once only."""
    if not plots:
        return Scripts()
    documents, places = _documents(plots)
    ours = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    return Scripts(bokeh_json.script(), ours, _json(documents), _json(places))


def render(template: str, drawn: Scripts, colors: int, context: Mapping[str, Any]) -> str:
    """The whole page. `colors`: how many colours of steps, or of runs, it uses."""
    from markupsafe import Markup

    hashes = " ".join(map(_hash, (drawn.library, drawn.ours))) if drawn.documents else "'none'"
    return (
        _environment()
        .get_template(template)
        .render(
            terms=definitions(),
            version=__version__,
            definitions_version=DEFINITIONS_VERSION,
            css=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
            swatches=Markup(_swatches(colors)),
            library=Markup(drawn.library),
            script=Markup(drawn.ours),
            script_hashes=hashes,
            documents=Markup(drawn.documents),
            places=Markup(drawn.places),
            colors=Markup(_json(dark(colors))),
            **context,
        )
    )


@functools.cache
def _environment() -> "Environment":
    """With the templates that it has read: a page is made twice to see how much room is left in it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _documents(plots: Sequence[Plot]) -> tuple[Any, list[Any]]:
    """Bokeh's JSON of all plots in one document, and which plot belongs into which element."""
    roots = [figure.whole(plot.figure, f"plot-{plot.key}") for plot in plots]
    made, ids = bokeh_json.document(roots)
    places = {name: f"plot-{plot.key}" for name, plot in zip(ids, plots, strict=True)}
    return {"plots": made}, [{"docid": "plots", "roots": places, "root_ids": ids}]


def _json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can close the element or open a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _swatches(steps: int) -> str:
    """The legends' colours of steps, light and dark."""
    swap = dark(steps)
    light = "".join(f".swatch-{color[1:]}{{--c:{color}}}" for color in step_colors(steps))
    night = "".join(f".swatch-{color[1:]}{{--c:{swap[color]}}}" for color in step_colors(steps))
    return f"{light}@media (prefers-color-scheme: dark){{{night}}}@media print{{{light}}}"
