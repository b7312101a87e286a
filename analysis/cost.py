"""What tokens and requests cost at each step, in money and in energy; what failed and truncated answers cost apart."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.health import Verdict
from analysis.summary import LENGTH_FINISH
from tokenswarm.record import Outcome
from tokenswarm.usage_error import UsageError

MILLION, HOUR_S = 1e6, 3600.0
COST_PER_HOUR, COST_PER_MILLION = "cost_per_hour", "cost_per_million_output_tokens"
COST_PER_REQUEST, ENERGY_PER_TOKEN_J = "cost_per_request", "energy_per_output_token_j"
FAILED_PER_HOUR, TRUNCATED_PER_HOUR = "cost_of_failed_per_hour", "cost_of_truncated_per_hour"
FAILED_TIME, TRUNCATED_TIME = "failed_time_share", "truncated_time_share"
FAILED_TOKENS, TRUNCATED_TOKENS = "failed_token_share", "truncated_token_share"


@dataclasses.dataclass(frozen=True, slots=True)
class Prices:
    """What the measured deployment costs: by the hour, or by the token as a provider bills it. None: not given."""

    per_hour: float | None = None  # of one GPU
    gpus: int = 1
    watts: float | None = None  # of one GPU
    input_per_million: float | None = None
    output_per_million: float | None = None


def add_arguments(parser: Any) -> None:
    """Of a command that answers with costs. Values are texts: `resolve` says what is wrong with them."""
    add = parser.add_argument_group("cost", "In any currency; figures are in the same one.").add_argument
    add("--price-per-hour", metavar="PRICE", help="of one GPU (of the whole server where --gpus is not given)")
    add("--gpus", metavar="N", help="GPUs of the measured server (1)")
    add("--watts", metavar="W", help="power that one GPU draws")
    add("--price-input", metavar="PRICE", help="of a million prompt tokens, where a provider bills by the token")
    add("--price-output", metavar="PRICE", help="of a million output tokens, likewise")


def resolve(given: Any) -> Prices | None:
    """None where no price and no power was given. Raises UsageError."""
    per_hour, watts = _amount(given, "price_per_hour"), _amount(given, "watts")
    of_input, of_output = _amount(given, "price_input"), _amount(given, "price_output")
    if (of_input is None) != (of_output is None):
        raise UsageError("--price-input and --price-output go together; give 0 for tokens that are free")
    if per_hour is not None and of_input is not None:
        raise UsageError("give either --price-per-hour or prices of tokens: a request is not paid twice")
    gpus = given.gpus or "1"
    if not (gpus.isascii() and gpus.isdigit()) or int(gpus) < 1:
        raise UsageError(f"--gpus: '{gpus}' is no number of GPUs; give a whole number of 1 or more")
    if per_hour is None and watts is None and of_input is None:
        return None
    return Prices(per_hour, int(gpus), watts, of_input, of_output)


def _amount(given: Any, name: str) -> float | None:
    text = getattr(given, name)
    if text is None:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = np.nan
    if not 0 <= amount < np.inf:
        raise UsageError(f"--{name.replace('_', '-')}: '{text}' is no amount; give a number of 0 or more, like 2.5")
    return amount


def waste(requests: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """One row a step: shares of the time in flight, and of the output tokens, of the requests sent in its window that
    failed (or were empty), and of those that were cut at their token limit. Frames as of `steady`.

    A failed answer has no usage: its chunks count as one token each.
    """
    sent = requests[requests.in_window]
    bad = sent.outcome.isin([Outcome.FAILED, Outcome.EMPTY])
    cut = (sent.outcome == Outcome.OK) & (sent.finish_reason == LENGTH_FINISH)
    in_flight = (sent.end_us - sent.sent_us).astype(float)
    tokens = sent.output_tokens.fillna(sent.n_chunks).astype(float)
    columns = {
        FAILED_TIME: (bad, in_flight),
        TRUNCATED_TIME: (cut, in_flight),
        FAILED_TOKENS: (bad, tokens),
        TRUNCATED_TOKENS: (cut, tokens),
    }
    shares = {}
    for name, (which, weight) in columns.items():
        whole = weight.groupby(sent.step_index).sum()
        shares[name] = (weight.where(which, 0.0).groupby(sent.step_index).sum() / whole.where(whole > 0)).reindex(
            range(len(steps))
        )
    return pd.DataFrame({names.STEP: steps.step.to_numpy(), **{name: one.to_numpy() for name, one in shares.items()}})


def costs(summary: pd.DataFrame, prices: Prices, wasted: pd.DataFrame | None = None) -> pd.DataFrame:
    """One row a step of `summary`, NaN for steps that are no evidence. Money in the prices' currency, energy in joule.

    wasted: as of `waste`; without it the costs of failed and truncated answers are unknown. By the hour they are
    shared out by time in flight, by the token by output tokens.
    """
    ratings = (names.OUTPUT_TOKENS_PER_S, names.TOTAL_TOKENS_PER_S, names.REQUESTS_PER_S)
    measured = summary[names.VERDICT] != Verdict.INVALID
    output, total, requests = (summary[name].where(measured & (summary[name] > 0)) for name in ratings)
    found = summary[[names.STEP, names.TARGET_USERS, names.OBSERVED_CONCURRENCY]].copy()
    found[COST_PER_HOUR] = _per_hour(output, total, prices)
    found[COST_PER_MILLION] = found[COST_PER_HOUR] / (output * HOUR_S) * MILLION
    found[COST_PER_REQUEST] = found[COST_PER_HOUR] / (requests * HOUR_S)
    found[ENERGY_PER_TOKEN_J] = np.nan if prices.watts is None else prices.watts * prices.gpus / output
    by_time = prices.per_hour is not None
    shares = {
        FAILED_PER_HOUR: FAILED_TIME if by_time else FAILED_TOKENS,
        TRUNCATED_PER_HOUR: TRUNCATED_TIME if by_time else TRUNCATED_TOKENS,
    }
    for column, share in shares.items():
        known = np.nan if wasted is None else found[names.STEP].map(wasted.set_index(names.STEP)[share])
        found[column] = found[COST_PER_HOUR] * known
    return found


def _per_hour(output: pd.Series, total: pd.Series, prices: Prices) -> pd.Series:
    if prices.per_hour is not None:
        return (output * 0 + prices.per_hour * prices.gpus).rename(None)  # NaN stays NaN
    if prices.input_per_million is None or prices.output_per_million is None:
        return output * np.nan
    per_s = (total - output) * prices.input_per_million + output * prices.output_per_million
    return per_s / MILLION * HOUR_S
