"""Whether something took hold of `ssl` before gevent had patched it: its connections would recurse without end."""

import sys

from gevent import monkey

from tokenswarm.usage_error import UsageError


def refuse_early_ssl() -> None:
    """Raises UsageError where a module still holds the SSLContext from before the patching."""
    original = monkey.saved.get("ssl", {}).get("SSLContext")
    if original is None:
        return
    for name, module in list(sys.modules.items()):
        early = name != "ssl" and not name.startswith("gevent") and vars(module).get("SSLContext") is original
        if early:
            raise UsageError(
                f"{name} was imported before Locust, and with it ssl: TLS would not work under gevent. Import locust first."
            )
