"""Numbers for people: one way to print a time, a count, a rate. Storage is in base units; scaling happens here only."""

import math

NOTHING = "–"  # a value that does not exist


def _exists(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def span(value_s: float | None) -> str:
    """A length of time with its unit, three significant digits: 840 µs, 84.0 ms, 1.23 s, 123 s."""
    if value_s is None or not _exists(value_s):
        return NOTHING
    for factor, unit in ((1e6, "µs"), (1e3, "ms"), (1.0, "s")):
        scaled = value_s * factor
        if abs(scaled) < 999.5 or unit == "s":
            return f"{_three_digits(scaled)} {unit}"
    raise AssertionError


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 99.95 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def clock(value_s: float | None) -> str:
    """A time to wait, as a clock shows it: 0:14, 12:05, 1:02:03. Rounded up, so that 0:00 means over."""
    if value_s is None or not _exists(value_s):
        return NOTHING
    seconds = max(0, math.ceil(value_s))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def count(value: float | None) -> str:
    """A count or a rate: 212, 12,345; at most six characters below a thousand million: 123k, 1.23M."""
    if value is None or not _exists(value):
        return NOTHING
    for factor, unit in ((1, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")):
        scaled = value / factor
        if factor == 1 and abs(scaled) < 99_999.5:
            return f"{scaled:,.0f}"
        if abs(scaled) < 999.5 and factor > 1:
            return f"{_three_digits(scaled)}{unit}"
    return f"{value:.2e}"


def ratio(value: float | None) -> str:
    """A share: 0.4 %, 12 %, 100 %. What is not none never prints as 0 %."""
    if value is None or not _exists(value):
        return NOTHING
    percent = value * 100
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.1f} %" if percent < 9.95 and percent != 0 else f"{percent:.0f} %"
