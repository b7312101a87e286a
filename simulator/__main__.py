"""`python -m simulator`: an OpenAI-compatible server that behaves like a continuous-batching engine."""

import argparse
import logging
import sys
from pathlib import Path

from simulator.answers import LengthSettings
from simulator.engine import EngineSettings
from simulator.faults import parse_rule
from simulator.server import ServerSettings, bind, serve

USAGE_ERROR = 2


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulator", description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    _add_server(parser.add_argument_group("server"))
    _add_engine(parser.add_argument_group("engine"))
    _add_speed(parser.add_argument_group("speed", "An iteration lasts base + prefill + sequences + context."))
    _add_answers(parser.add_argument_group("answers and faults"))
    return parser


def _add_server(group: argparse._ArgumentGroup) -> None:
    default = ServerSettings()
    group.add_argument("--host", default="127.0.0.1", help="address to bind")
    group.add_argument("--port", type=int, default=8000, help="port to bind; 0 takes any free one")
    group.add_argument("--model", default=default.model, help="name of the served model")
    group.add_argument("--api-key", help="key that requests under /v1 must bear")
    group.add_argument(
        "--keep-alive", type=int, default=default.keep_alive_s, help="seconds an idle connection is kept"
    )
    group.add_argument("--truth-log", type=Path, help="file to append one JSON line a request to: what really happened")


def _add_engine(group: argparse._ArgumentGroup) -> None:
    default = EngineSettings()
    group.add_argument("--max-num-seqs", type=int, default=default.max_num_seqs, help="requests in the batch at once")
    group.add_argument(
        "--max-num-batched-tokens", type=int, default=default.max_num_batched_tokens, help="token budget an iteration"
    )
    group.add_argument("--kv-blocks", type=int, default=default.kv_blocks, help="capacity of the KV cache in blocks")
    group.add_argument("--block-tokens", type=int, default=default.block_tokens, help="tokens in a KV block")
    group.add_argument("--max-model-len", type=int, default=default.max_model_len, help="context length in tokens")
    group.add_argument("--max-queue", type=int, help="waiting requests beyond which new ones get 503; none: no limit")
    group.add_argument("--prefix-cache", action="store_true", help="reuse the KV blocks of equal prompt beginnings")
    group.add_argument("--seed", type=int, default=default.seed, help="of answers, jitter and the choice of faults")


def _add_speed(group: argparse._ArgumentGroup) -> None:
    default = EngineSettings()
    group.add_argument("--base-s", type=float, default=default.base_s, help="seconds an iteration takes anyway")
    group.add_argument("--prefill-token-s", type=float, default=default.prefill_token_s, help="more per prefill token")
    group.add_argument("--sequence-s", type=float, default=default.sequence_s, help="more per scheduled sequence")
    group.add_argument("--context-token-s", type=float, default=default.context_token_s, help="more per context token")
    group.add_argument("--slowdown", type=float, default=default.slowdown, help="factor on all of it but the prefill")
    group.add_argument("--jitter", type=float, default=default.jitter, help="durations vary by up to this share")


def _add_answers(group: argparse._ArgumentGroup) -> None:
    default = LengthSettings()
    group.add_argument("--answer-tokens", type=int, default=default.median_tokens, help="median length of an answer")
    group.add_argument("--answer-sigma", type=float, default=default.sigma, help="spread of the log-normal lengths")
    group.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[:name=value,…]",
        help="fault on order, for a share=0.1 or every=20 of the requests; may be given several times; kinds and their "
        "parameters are in simulator/faults.py; a request can order its own by the body field `fault`",
    )


def settings_from(args: argparse.Namespace) -> ServerSettings:
    """Raises ValueError where a value makes no sense."""
    engine_fields = (
        "max_num_seqs",
        "max_num_batched_tokens",
        "kv_blocks",
        "block_tokens",
        "max_model_len",
        "max_queue",
    )
    speed_fields = ("base_s", "prefill_token_s", "sequence_s", "context_token_s", "slowdown", "jitter")
    names = (*engine_fields, *speed_fields, "prefix_cache", "seed")
    return ServerSettings(
        engine=EngineSettings(**{name: getattr(args, name) for name in names}),
        lengths=LengthSettings(median_tokens=args.answer_tokens, sigma=args.answer_sigma),
        model=args.model,
        api_key=args.api_key,
        truth_log=args.truth_log,
        fault_rules=tuple(parse_rule(text, args.seed) for text in args.fault),
        keep_alive_s=args.keep_alive,
    )


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    logging.basicConfig(format="simulator: %(message)s", level=logging.WARNING)
    try:
        settings = settings_from(args)
    except ValueError as error:
        print(f"simulator: {error}", file=sys.stderr)
        return USAGE_ERROR
    try:
        sock = bind(args.host, args.port)
    except (OSError, OverflowError) as error:
        print(f"simulator: cannot listen on {args.host}:{args.port}: {error}; try --port 0", file=sys.stderr)
        return USAGE_ERROR
    try:
        serve(settings, sock)
    except OSError as error:
        print(f"simulator: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        pass  # Ctrl-C is how it is stopped; everything has been closed
    return 0


if __name__ == "__main__":
    sys.exit(main())
