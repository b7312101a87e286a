"""docs/metrics.md is what the code says, and says something of each thing."""

import re

from tokenswarm import glossary


def test_the_page_is_current() -> None:
    assert glossary.PAGE.read_text("utf-8") == glossary.page(), "run: make docs"


def test_every_column_metric_and_class_has_a_note() -> None:
    rows = [line for line in glossary.page().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert [row for row in rows if re.search(r"\|\s*\|", row)] == []
