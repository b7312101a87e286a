"""A plot as the JSON that Bokeh's script draws, written here without Bokeh's Python models.

Those check every property whenever a report is made, and importing and building them took several times as long as
reading a run of 40 minutes. What is checked there each time is checked by a test instead: it lets Bokeh read back what
is written here. A model is left out where the script makes the same one by itself.
"""

import base64
import dataclasses
import gzip
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PACKAGE = "bokeh"
SCRIPT = Path("server", "static", "js", "bokeh.min.js")  # in the package; without widgets, tables and formulas


@dataclasses.dataclass(slots=True, eq=False)
class Model:
    """One of Bokeh's models; where it stands in several places, it is one and the same there."""

    name: str
    attributes: dict[str, Any]


def model(name: str, /, **attributes: Any) -> Model:
    """`name` and attributes as in Bokeh's reference; attributes that may vary by point are `field` or `value`."""
    return Model(name, attributes)


def field(column: str) -> dict[str, str]:
    """An attribute that each point has its own of."""
    return {"type": "field", "field": column}


def value(constant: Any) -> dict[str, Any]:
    """An attribute that could vary by point, and is the same for all."""
    return {"type": "value", "value": constant}


def mapping(entries: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    """Keys of any type, as of `major_label_overrides`."""
    return {"type": "map", "entries": [list(entry) for entry in entries]}


def source(columns: Mapping[str, Any] | pd.DataFrame) -> Model:
    """Columns of a glyph: numbers with single precision, more than a screen has; anything else as a list."""
    return model("ColumnDataSource", data=mapping([(str(name), _column(one)) for name, one in columns.items()]))


def _column(values: Any) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        return array.tolist()
    packed = gzip.compress(array.astype("<f4").tobytes(), compresslevel=6, mtime=1)
    content = {"type": "bytes", "data": base64.b64encode(packed).decode()}
    return {"type": "ndarray", "array": content, "shape": [len(array)], "dtype": "float32", "order": "little"}


def document(roots: Sequence[Model]) -> tuple[dict[str, Any], list[str]]:
    """The document that `Bokeh.embed` is given, and the id of each root."""
    ids: dict[int, str] = {}
    written = [_written(root, ids) for root in roots]
    about = {
        "version": importlib.metadata.version(PACKAGE),
        "title": "",
        "config": _written(model("DocumentConfig"), ids),
    }
    return about | {"roots": written}, [one["id"] for one in written]


def _written(part: Any, ids: dict[int, str]) -> Any:
    """`part` with its models as JSON: whole where one comes first, by its id from then on."""
    if isinstance(part, dict):
        return {key: _written(one, ids) for key, one in part.items()}
    if isinstance(part, list | tuple):
        return [_written(one, ids) for one in part]
    if not isinstance(part, Model):
        return part.item() if isinstance(part, np.generic) else part
    if id(part) in ids:
        return {"id": ids[id(part)]}
    ids[id(part)] = name = f"p{len(ids) + 1}"
    return {"type": "object", "name": part.name, "id": name, "attributes": _written(part.attributes, ids)}


def script() -> str:
    """Bokeh's own script. Raises FileNotFoundError where the package is not installed whole."""
    found = importlib.util.find_spec(PACKAGE)
    folders = (found and found.submodule_search_locations) or ["."]
    return (Path(folders[0]) / SCRIPT).read_text(encoding="utf-8")
