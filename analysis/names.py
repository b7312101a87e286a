"""Names of the summary's columns, made from the metrics' own names; table, curve and gate ask here."""

from tokenswarm.metrics import METRICS
from tokenswarm.record import Outcome

TTFT = METRICS["ttft"].name
TTFO = METRICS["ttfo"].name
ITL = METRICS["itl"].name
ITL_PER_TOKEN = METRICS["itl_per_token"].name
TPOT = METRICS["tpot"].name
E2E = METRICS["e2e"].name
TOKENS_PER_CHUNK = METRICS["tokens_per_chunk"].name
USER_TOKENS_PER_S = METRICS["user_tokens_per_s"].name
OUTPUT_TOKENS_PER_S = METRICS["output_tokens_per_s"].name
TOTAL_TOKENS_PER_S = METRICS["total_tokens_per_s"].name
REQUESTS_PER_S = METRICS["requests_per_s"].name
OUTPUT_TOKENS_PER_S_WALL = METRICS["output_tokens_per_s_wall"].name
REQUESTS_PER_S_WALL = METRICS["requests_per_s_wall"].name
GOODPUT_PER_S = METRICS["goodput_per_s"].name
SLO_ATTAINMENT = METRICS["slo_attainment"].name
ERROR_RATIO = METRICS["error_ratio"].name
TRUNCATED_RATIO = METRICS["truncated_ratio"].name
OBSERVED_CONCURRENCY = METRICS["observed_concurrency"].name

LATENCIES = (TTFT, TTFO, ITL, ITL_PER_TOKEN, TPOT, E2E)
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
SLOW_QUANTILES = {"p50": 0.50, "p05": 0.05, "p01": 0.01}  # of a rate: its bad end is the low one
MEAN, MAX, LOW, HIGH = "mean", "max", "low", "high"

STEP, TARGET_USERS = "step", "target_users"
VERDICT, REASONS, NOTES, WITHHELD = "verdict", "reasons", "notes", "withheld"
WINDOW_START_S, WINDOW_LENGTH_S, WINDOW_SHORT = "window_start_s", "window_length_s", "window_short"
SENT, CENSORED, START_BURST = "requests_sent", "requests_censored", "requests_start_burst"
START_BURST_TTFT_N = f"{TTFT}_start_burst_n"
START_BURST_TTFT_S = f"{TTFT}_start_burst_mean_s"
START_BURST_TTFT_MAX_S = f"{TTFT}_start_burst_max_s"


def outcome_count(outcome: Outcome) -> str:
    """Column of the number of requests with this outcome, of those sent in the window."""
    return f"requests_{outcome.value}"


def stat(metric: str, which: str, bound: str = "") -> str:
    """Column of a statistic: `ttft_p95_s`, `ttft_p95_low_s`; a rate's name carries its unit already: `…_per_s_p50`."""
    name = f"{metric}_{which}" + (f"_{bound}" if bound else "")
    return f"{name}_s" if METRICS[metric].unit == "s" else name


def count(metric: str) -> str:
    """Column of the number of samples a latency figure stands on."""
    return f"{metric}_n"


def left_out(metric: str) -> str:
    """Column of the requests that a latency figure leaves out: failed, empty, or without that metric."""
    return f"{metric}_left_out"
