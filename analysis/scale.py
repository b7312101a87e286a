"""Base units → numbers for people, in text only: storage and frames stay in seconds."""

import dataclasses
from collections.abc import Iterable

import numpy as np

WITHHELD = "–"
MILLISECONDS_UNTIL_S = 10.0  # four digits of ms still read well; beyond, seconds do


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """`text(value)` is `value * factor` in `unit`, to three digits."""

    unit: str
    factor: float

    @classmethod
    def of_seconds(cls, values: Iterable[float]) -> "Scale":
        """One unit for all of `values` (s): ms, or s where the largest would have five digits or none is below 1 s."""
        known = [value for value in values if np.isfinite(value)]
        if known and (max(known) >= MILLISECONDS_UNTIL_S or min(known) >= 1):
            return cls("s", 1.0)
        return cls("ms", 1000.0)

    def text(self, value: float) -> str:
        """Three significant digits, whole numbers in full; a withheld value as a dash."""
        if not np.isfinite(value):
            return WITHHELD
        scaled = value * self.factor
        digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
        return f"{scaled:.{digits}f}" if scaled else "0"
