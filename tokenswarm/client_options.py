"""The options that shape how a server is asked: the same on every command line, and in the web UI's form."""

import argparse
import math
import os
import re
from typing import TYPE_CHECKING, Any

from tokenswarm.usage_error import UsageError

if TYPE_CHECKING:
    from tokenswarm.api_key import KeyCommand
    from tokenswarm.client import ChatSettings
    from tokenswarm.route import Tls


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
        "--stall-by-token",
        action="store_true",
        help="count --stall-timeout from the last token: comments keep no answer alive",
    )
    parser.add_argument(
        "--total-timeout", type=float, default=1800.0, metavar="S", help=f"for the whole answer ({limit})"
    )
    parser.add_argument(
        "--extra-body", default="", metavar="JSON", help='more fields of the request, like {"temperature": 0}'
    )
    # Locust's web UI shows options and their values in a form: these may hold secrets
    unseen = {"include_in_web_ui": False} if hasattr(parser, "args_included_in_web_ui") else {}
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="one more request header; may be repeated",
        **unseen,
    )
    parser.add_argument(
        "--api-key-command",
        default="",
        metavar="CMD",
        help="shell command that prints an API key; run before the load, every --api-key-period, and at a 401",
        **unseen,
    )
    parser.add_argument(
        "--api-key-period",
        type=float,
        default=300.0,
        metavar="S",
        help="how often --api-key-command runs again (seconds; 0: only when the server answers 401)",
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
    """Raises UsageError where an option cannot be used. Runs --api-key-command, where there is one."""
    from tokenswarm.client import ChatSettings, parse_extra_body
    from tokenswarm.exchange import Limits
    from tokenswarm.target import parse_targets

    limits = [options.connect_timeout, options.first_token_timeout, options.stall_timeout, options.total_timeout]
    if not all(limit >= 0 and math.isfinite(limit) for limit in (*limits, options.api_key_period)):
        raise UsageError("a time-out or period is a number of seconds, 0 or more; 0 means no limit")
    targets = parse_targets(target)
    headers = dict(split_header(text) for text in options.header)
    extra_body = parse_extra_body(options.extra_body) if options.extra_body else {}
    key, command = api_key(options)
    return ChatSettings(
        targets=targets,
        model=model or "",
        api_key=key,
        key_command=command,
        headers=headers,
        extra_body=extra_body,
        limits=Limits(
            connect_s=options.connect_timeout or None,
            first_token_s=options.first_token_timeout or None,
            stall_s=options.stall_timeout or None,
            total_s=options.total_timeout or None,
            stall_by_token=options.stall_by_token,
        ),
        tls=tls_from(options),
        fresh_connections=options.fresh_connections,
    )


def api_key(options: argparse.Namespace) -> "tuple[str | None, KeyCommand | None]":
    """The key to begin with, and what prints the next one. The command goes before OPENAI_API_KEY. Raises UsageError."""
    from tokenswarm.api_key import KeyCommand, checked

    if options.api_key_command:
        command = KeyCommand(options.api_key_command, options.api_key_period or None)
        return command.run(), command
    return checked(os.environ.get("OPENAI_API_KEY", ""), "OPENAI_API_KEY") or None, None


def tls_from(options: argparse.Namespace) -> "Tls":
    from tokenswarm.route import Tls

    if options.client_key and not options.client_cert:
        raise UsageError("--client-key is the key of a certificate: give that too, with --client-cert FILE")
    files = (options.ca_file or None, options.client_cert or None, options.client_key or None)
    return Tls(not options.insecure, *files)


def split_header(text: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise UsageError("--header must look like 'NAME: value'")
    if not value.isascii() or not value.isprintable():
        raise UsageError(f"the value of --header {name} holds characters that no header can carry")
    return name, value
