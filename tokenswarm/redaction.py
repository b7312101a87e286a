"""Secrets out of what is written down of a run: told by name, by form, and by value."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tokenswarm.masking import SHORTEST_SECRET

REMOVED = "[removed]"  # stands for a secret
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PARTS = ("key", "secret", "passw", "passphrase", "credential", "authorization", "cookie", "header", "bearer")
_CREDENTIALS = {"access", "api", "auth", "hf", "id", "login", "refresh", "session"}  # "… tokens" that are no counts
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")
_FORMS = re.compile(r"\b(?:Bearer|Basic)\s+\S+|\b(?:sk|pk|gsk|xai)-[\w-]{8,}|\bhf_\w{8,}", re.IGNORECASE)
_NAMED = (  # a name, a sign, a value
    re.compile(r"(?<=[?&])([^=&#\s]+)(=)([^&#\s\"']+)"),  # in a URL
    re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)(=|\s+)(?!-)([^\s\"']+)"),  # in a command line
    re.compile(r"([A-Za-z][\w-]*)(\s*[:=]\s*)(?!//)([^\s\"',;&]+)"),  # a header, a variable
)


def is_secret(name: str, value: object = None) -> bool:
    """Whether something called `name` is kept out of files. A number called "token" is a count."""
    lower = name.lower()
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(part in lower for part in _PARTS) or "auth" in words:
        return True
    if "token" in words:
        return isinstance(value, bool) or not isinstance(value, int | float)
    return "tokens" in words and not _CREDENTIALS.isdisjoint(words)


def redact(value: Any, secrets: Iterable[str] = ()) -> Any:
    """`value` as JSON can hold it, without secrets: keys, headers and credentials are replaced by REMOVED.

    They are told by name (api_key, hf_token, header …), by form (Bearer …, user:password@host, sk-…, --api-key x in a
    command line), and by value: `secrets` holds those that the caller knows. Counts such as max_tokens stay, and None
    stays None: that nothing was given is no secret.
    """
    secrets = tuple(secrets)
    if isinstance(value, Mapping):
        return {
            str(name): REMOVED if held is not None and is_secret(str(name), held) else redact(held, secrets)
            for name, held in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(held, secrets) for held in value]
    if isinstance(value, set | frozenset):
        return sorted(redact(held, secrets) for held in value)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return redact_text(str(value), secrets)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the secrets that can be told by their form, and without `secrets` themselves."""
    secrets = tuple(secrets)
    if text.lstrip()[:1] in ("{", "["):  # an option whose value is JSON
        try:
            return json.dumps(redact(json.loads(text), secrets), ensure_ascii=False)
        except ValueError:
            pass
    for secret in sorted((each for each in secrets if len(each) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    text = _FORMS.sub(REMOVED, _USERINFO.sub("", text))
    for named in _NAMED:
        text = named.sub(lambda found: f"{found[1]}{found[2]}{REMOVED}" if is_secret(found[1]) else found[0], text)
    return text
