"""Definitions behind the "?" of a report: the metrics' own texts, and the words of the tables beside them."""

from analysis.names import QUANTILES
from analysis.stats import smallest_n
from tokenswarm.metrics import METRICS

_NEEDS = ", ".join(f"{which} needs {smallest_n(quantile)}" for which, quantile in QUANTILES.items())

SERVER_REQUESTS, SERVER_CACHE = "server_requests", "server_cache"  # terms of what the server says of itself
WORDS = {
    "interval": (
        "95 % interval",
        "The range that covers the true value in 95 of 100 such measurements. Shown as a band in the plots and beside "
        "the figure in the tables. Two steps whose intervals overlap were not shown to differ.",
    ),
    "withheld": (
        "Withheld (–)",
        f"Too few samples for a 95 % interval ({_NEEDS}), or too many requests still open when the window closed. "
        "The column `withheld` of summary.csv says which and why.",
    ),
    "verdict": (
        "Verdict",
        "Whether a step's figures may be believed: valid, suspect, or invalid, with the reasons. It judges the "
        "measurement (client, window, answers), not the speed of the server.",
    ),
    "window": (
        "Steady window",
        "The part of a step that counts: it begins when all users are up and the warm-up is over, and is equally long "
        "for every step. Shaded in the plots over time.",
    ),
    "sent": ("Sent", "Requests sent inside the steady window; ok, failed, empty and cancelled ones add up to them."),
    "ok": ("ok", "Answered in full."),
    "failed": ("failed", "Refused, broken off, timed out, or answered with an error, under whatever status."),
    "empty": ("empty", "Ended well, but without any output; counts as not ok."),
    "cancelled": ("cancelled", "Stopped by us, at the end of a step or of the run; no failure of the server."),
    "open_at_close": (
        "Open at close",
        "Requests still in flight when the window closed. They are censored, not dropped: they count as at least that "
        "long (Kaplan-Meier).",
    ),
    "start_burst": ("Start burst", "The first request of each user in the step: all begin at once, unlike later ones."),
    SERVER_REQUESTS: (
        "Requests in the server",
        "What the server's /metrics says once a second: requests that are being computed, and requests that wait in its "
        "queue. A queue that grows shows in TTFT.",
    ),
    SERVER_CACHE: (
        "KV cache in use",
        "The share of the memory for the context of running requests that is taken, as the server's /metrics says; of "
        "several engines the fullest. When it is full, requests wait, or lose their place in it and are computed anew.",
    ),
    "left_out": ("Left out", "Requests without this figure: failed, empty, or an answer for which it does not exist."),
}


def definitions() -> dict[str, tuple[str, str]]:
    """Term → (label, text), the metrics first."""
    return {name: (metric.label, metric.text) for name, metric in METRICS.items()} | WORDS
