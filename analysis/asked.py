"""What a planner may ask of a run on the command line: objectives, prices, users to carry. For any command's parser."""

import argparse
import dataclasses

from analysis import cost
from analysis.cost import Prices
from analysis.replicas import HEADROOM
from tokenswarm import slo
from tokenswarm.usage_error import UsageError


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `findings.findings` besides the analysis, and the tokenizer of the analysis itself."""

    slos: dict[str, float] | None  # None: those of the run
    prices: Prices | None
    users: int | None
    headroom: float
    tokenizer: str | None = None  # as of `recount.recounted`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Values are texts: `resolve` says what is wrong with them."""
    slo.add_argument(parser)
    parser.add_argument("--users", metavar="N", help="how many replicas N users need")
    parser.add_argument(
        "--headroom", metavar="SHARE", default=f"{HEADROOM:.0%}", help="of each replica's capacity, to be left free"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        help="folder or hub id: counts the tokens of saved text (SAVE_OUTPUTS=1) where the server told none",
    )
    cost.add_arguments(parser)


def resolve(given: argparse.Namespace) -> Asked:
    """Raises UsageError."""
    slos, prices = slo.parse_all(given.slo) or None, cost.resolve(given)
    return Asked(slos, prices, _users(given.users), _headroom(given.headroom), given.tokenizer or None)


def _users(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise UsageError(f"--users: '{text}' is no number of users; give a whole number of 1 or more")
    return int(text)


def _headroom(text: str) -> float:
    try:
        share = float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise UsageError(f"--headroom: '{text}' is no share of the capacity; give 0% or more, below 100%, like 30%")
    return share
