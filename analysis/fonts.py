"""Texts of people and servers in pictures: in a font that has their characters, where one is installed; "…" stands for
what no font here can draw, where boxes would stand otherwise. A text that stays a text (SVG) is left to its reader's fonts.
"""

import contextlib
import functools
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FAMILY = "DejaVu Sans"  # comes with matplotlib, so that a picture looks alike everywhere
LAST_RESORT = "Last Resort"  # fonts of boxes for every character there is
NOT_DRAWN = "…"
NO_GLYPH = "Glyph .* missing from"


@contextlib.contextmanager
def fitting(figure: "Figure", stays_text: bool) -> Iterator[None]:
    """While it lasts, every text of `figure` can be drawn; quietly. stays_text: nothing is replaced."""
    from matplotlib.text import Text

    before = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        missing = frozenset(text.get_text()) - _drawn_by(_path(FAMILY)) - {"\n"}
        if missing:
            before.append((text, text.get_text(), text.get_fontfamily()))
            _fit(text, missing, stays_text)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", NO_GLYPH, UserWarning)
            yield
    finally:
        for text, said, family in before:
            text.set_text(said)
            text.set_fontfamily(family)


def _fit(text: "Text", missing: frozenset[str], stays_text: bool) -> None:
    families, left = having(missing)
    text.set_fontfamily([FAMILY, *families])
    if left and not stays_text:
        text.set_text(re.sub(f"[{re.escape(''.join(sorted(left)))}]+", NOT_DRAWN, text.get_text()))


@functools.lru_cache
def having(characters: frozenset[str]) -> tuple[list[str], frozenset[str]]:
    """Families of installed fonts that have `characters`, as few as that takes, and those that none has."""
    from matplotlib import font_manager

    upright = [one for one in font_manager.fontManager.ttflist if one.style == "normal"]
    fonts = {one.name: one.fname for one in upright if not one.name.startswith(LAST_RESORT)}
    found: list[str] = []
    while characters:
        # of equals the first by name: the same machine draws the same picture
        best = max(sorted(fonts), key=lambda name: len(characters & _drawn_by(fonts[name])), default=None)
        if best is None or not characters & _drawn_by(fonts[best]):
            break
        found.append(best)
        characters -= _drawn_by(fonts[best])
    return found, characters


def _path(family: str) -> str:
    from matplotlib import font_manager

    return str(font_manager.findfont(family))


@functools.cache
def _drawn_by(path: str) -> frozenset[str]:
    """The characters that a font has; none of a font of pictures, such as emoji, which cannot be drawn in a size."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(path)
    except (OSError, RuntimeError):  # a file that FreeType does not read is no help
        return frozenset()
    return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()
