"""`python -m tokenswarm.probe TARGET`: what a server answers to one or a few requests, as it is recorded under load.

With --json: one JSON object a line: the record's columns, the derived metrics in seconds (`ttft_s`, `ttfo_s`, `tpot_s`,
`e2e_s`, …), and what was received: `text`, `reasoning_text`, `tool_arguments`, `retry_after_s`.
"""

import argparse
import dataclasses
import io
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from tokenswarm.client_options import add_client_arguments, settings_from
from tokenswarm.usage_error import UsageError

if TYPE_CHECKING:
    from tokenswarm.digest import Reading

DEFAULT_PROMPT = "Write a short story about a lighthouse keeper."
FAILED = 1
WRONG_USE = 2
INTERRUPTED, READER_GONE = 130, 141  # as a shell has them for SIGINT and SIGPIPE
SHOWN = 200  # characters of an answer


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tokenswarm.probe",
        description="Send a few chat completions to an OpenAI-compatible server and show what was recorded of each.",
        epilog="The API key is read from OPENAI_API_KEY. Exit code: 0 every request was answered, 1 one was not, "
        "2 wrong use or a target that cannot be measured.",
    )
    parser.add_argument("target", help="base URL, like http://host:8000/v1")
    parser.add_argument("--model", help="model to ask; not needed where the server lists just one")
    parser.add_argument("--requests", type=int, default=1, metavar="N", help="how many, one after the other (1)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument(
        "--no-preflight", action="store_true", help="send exactly N requests and nothing else; needs --model"
    )
    parser.add_argument("--prompt", default=DEFAULT_PROMPT, help="what to ask")
    parser.add_argument(
        "--prompt-tokens", type=int, metavar="N", help="how many tokens the prompt has, where you know it"
    )
    parser.add_argument("--max-tokens", type=int, default=64, metavar="N", help="limit of the answer (64)")
    add_client_arguments(parser)
    return parser


def as_json(reading: "Reading") -> dict[str, Any]:
    """The record's columns, the derived metrics, and what was received."""
    from tokenswarm.errors import retry_after_s
    from tokenswarm.metrics import derive

    record, answer = reading.record, reading.answer
    assert record is not None
    shown = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    derived = derive(record)
    shown |= {name if name.endswith("_per_s") or "tokens" in name else f"{name}_s": derived[name] for name in derived}
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reading.exchange.headers}
    shown["retry_after_s"] = retry_after_s(headers, time.time())
    for name in ("text", "reasoning_text", "tool_arguments"):
        shown[name] = getattr(answer, name, "") or ""
    return shown


def in_words(number: int, reading: "Reading") -> str:
    """A few lines for a person."""
    shown = as_json(reading)
    status = f"HTTP {shown['http_status']}" if shown["http_status"] else "no answer"
    why = f" ({shown['error_class']}: {shown['detail'] or '-'})" if shown["error_class"] else ""
    lines = [f"request {number}: {shown['outcome']}{why}, {status}, finish_reason {shown['finish_reason'] or '-'}"]
    times = [
        f"{label} {shown[name] * 1e3:,.1f} ms"
        for label, name in (("TTFT", "ttft_s"), ("TTFO", "ttfo_s"), ("TPOT", "tpot_s"), ("E2E", "e2e_s"))
        if shown[name] is not None
    ]
    lines.append("  " + (", ".join(times) or "no latency") + f"; stamped by: {shown['stamp'] or '-'}")
    lines.append(
        f"  {len(shown['chunk_us'])} chunks, {shown['output_tokens'] if shown['output_tokens'] is not None else '?'} output "
        f"tokens, {shown['prompt_tokens'] if shown['prompt_tokens'] is not None else '?'} prompt tokens"
    )
    if shown["warnings"]:
        lines.append("  warnings: " + ", ".join(shown["warnings"]))
    text = shown["text"] or shown["reasoning_text"] or shown["tool_arguments"]
    if text:
        lines.append(f"  {text[:SHOWN]!r}{'…' if len(text) > SHOWN else ''}")
    return "\n".join(lines)


def run(options: argparse.Namespace) -> int:
    import msgspec

    from tokenswarm.client import ChatClient
    from tokenswarm.preflight import preflight
    from tokenswarm.record import Outcome

    settings = settings_from(options, options.target, options.model)
    if not options.no_preflight:
        findings = preflight(settings)
        settings = findings.settings
        for note in findings.notes:
            print(f"note: {note}", file=sys.stderr)
    client = ChatClient(settings, worker="probe")
    good = True
    try:
        for number in range(1, options.requests + 1):
            reading = client.chat(
                [{"role": "user", "content": options.prompt}],
                user="probe",
                task="probe",
                max_tokens=options.max_tokens,
                expected_prompt_tokens=options.prompt_tokens,
                prompt_words=len(options.prompt.split()),
                keep_text=True,
                await_record=True,
            )
            assert reading.record is not None
            good = good and reading.record.outcome is Outcome.OK
            print(
                msgspec.json.encode(as_json(reading)).decode() if options.json else in_words(number, reading),
                flush=True,
            )
    finally:
        client.close()
    return 0 if good else FAILED


def checked(options: argparse.Namespace) -> argparse.Namespace:
    """Raises UsageError for what cannot be asked."""
    for name, value in (("--requests", options.requests), ("--max-tokens", options.max_tokens)):
        if value < 1:
            raise UsageError(f"{name} must be 1 or more, not {value}")
    if options.no_preflight and not options.model:
        raise UsageError("--no-preflight needs --model: nothing is asked of the server beforehand")
    return options


def outcome(options: argparse.Namespace) -> int:
    """The exit code of `run`; never raises what a user has caused."""
    try:
        return run(checked(options))
    except UsageError as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    except BrokenPipeError:  # nobody reads any more; nor may the flush at exit find a broken pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def main(argv: list[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show all that a model says
    try:
        from gevent import monkey

        monkey.patch_all()
        import gevent

        # as an event of the loop: a KeyboardInterrupt could strike anywhere, between a read and its booking too
        job = gevent.spawn(outcome, options)
        gevent.signal_handler(signal.SIGINT, job.kill, block=False)
        code = job.get()
    except KeyboardInterrupt:  # while modules were being loaded
        return INTERRUPTED
    return code if isinstance(code, int) else INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
