"""The options that shape how a server is asked: the same on every command line, and in the web UI's form."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from tokenswarm.usage_error import UsageError

if TYPE_CHECKING:
    from tokenswarm.client import ChatSettings


def add_client_arguments(parser: Any) -> None:
    """The options that shape how a server is asked, shared with the Locust command line."""
    limit = "seconds; 0: no limit"
    parser.add_argument("--connect-timeout", type=float, default=10.0, metavar="S", help=f"for a connection ({limit})")
    parser.add_argument(
        "--first-token-timeout", type=float, default=300.0, metavar="S", help=f"for the first token ({limit})"
    )
    parser.add_argument(
        "--stall-timeout",
        type=float,
        default=120.0,
        metavar="S",
        help=f"without a byte after the first token ({limit})",
    )
    parser.add_argument(
        "--total-timeout", type=float, default=1800.0, metavar="S", help=f"for the whole answer ({limit})"
    )
    parser.add_argument(
        "--extra-body", default="", metavar="JSON", help='more fields of the request, like {"temperature": 0}'
    )
    parser.add_argument(
        "--header", action="append", default=[], metavar="NAME:VALUE", help="one more request header; may be repeated"
    )
    parser.add_argument("--fresh-connections", action="store_true", help="a new connection for every request")
    parser.add_argument(
        "--insecure", action="store_true", help="do not verify the server's certificate (test rigs only)"
    )
    parser.add_argument("--ca-file", default="", metavar="FILE", help="certificates to trust, PEM")
    parser.add_argument("--client-cert", default="", metavar="FILE", help="client certificate to show, PEM")
    parser.add_argument(
        "--client-key", default="", metavar="FILE", help="its key, PEM, where it is in a file of its own"
    )


def settings_from(options: argparse.Namespace, target: str, model: str | None) -> "ChatSettings":
    """Raises UsageError where an option cannot be used."""
    from tokenswarm.client import ChatSettings, parse_extra_body
    from tokenswarm.exchange import Limits
    from tokenswarm.route import Tls
    from tokenswarm.target import parse_target

    limits = [options.first_token_timeout, options.stall_timeout, options.total_timeout]
    if min(options.connect_timeout, *limits) < 0:
        raise UsageError("a time-out cannot be negative; 0 means no limit")
    headers = dict(split_header(text) for text in options.header)
    return ChatSettings(
        targets=tuple(parse_target(part) for part in target.split(",")),
        model=model or "",
        api_key=os.environ.get("OPENAI_API_KEY") or None,
        headers=headers,
        extra_body=parse_extra_body(options.extra_body) if options.extra_body else {},
        limits=Limits(options.connect_timeout or None, *(limit or None for limit in limits)),
        tls=Tls(not options.insecure, options.ca_file or None, options.client_cert or None, options.client_key or None),
        fresh_connections=options.fresh_connections,
    )


def split_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or "\n" in text or "\r" in text:
        raise UsageError("--header must look like 'NAME: value'")
    return name.strip(), value.strip()
