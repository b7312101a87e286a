"""`python -m tokenswarm.glossary`: docs/metrics.md, written from the definitions and the record in the code."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tokenswarm import metrics, record

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = ["| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *map(list, rows)]]
    return "\n".join(lines)


def _commented(source: str, owner: str) -> dict[str, str]:
    """Name → trailing comment of the members of a class, from its source: the comments are the definitions."""
    body = source.split(f"class {owner}", 1)[1].split("\n\n\n", 1)[0]
    members = re.findall(r"^    (\w+)(?:: [^=#\n]+)?(?: = ([^#\n]+?))?(?:  # (.*))?$", body, re.M)
    return {(value.strip('"') if value.startswith('"') else name): note for name, value, note in members}


def page() -> str:
    """The whole page as Markdown."""
    source = Path(record.__file__).read_text("utf-8")
    defined = _table(
        ["name", "unit", "better", "one sample per", "definition"],
        ([f"`{m.name}`", m.unit, m.better or "–", m.kind, m.text] for m in metrics.METRICS.values()),
    )
    fields = _commented(source, "RequestRecord")
    columns = _table(
        ["column", "note"], ([f"`{name}`", fields.get(name, "")] for name in record.columns(record.RequestRecord))
    )
    notes = _commented(source, "ErrorClass")
    classes = _table(["class", "when"], ([f"`{item}`", notes.get(item, "")] for item in record.ErrorClass))
    outcomes = ", ".join(f"`{item}`" for item in record.Outcome)
    cautions = ", ".join(f"`{item}`" for item in record.Caution)
    return f"""# What is recorded, what it means

Written by `make docs` from `tokenswarm/metrics.py` and `tokenswarm/record.py`; do not edit it here.
Version of the definitions: {metrics.DEFINITIONS_VERSION}. Version of the record: {record.SCHEMA}.

## Metrics

{defined}

## The request record

One row per request in `requests-<worker>.csv`: whole or absent. Only observations are stored; metrics are derived from
them. Unknown is an empty cell. `*_at` are epoch seconds, `*_us` microseconds after `sent_at`.

{columns}

## Outcomes

Each request has one of {outcomes}. The error class of a request that is `failed` or `empty`:

{classes}

`warnings` never turn a row into a failure: {cautions}.
"""


def main() -> int:
    PAGE.write_text(page(), "utf-8")
    print(f"wrote {PAGE.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
