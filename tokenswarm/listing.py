"""Which models a server lists, and which of them is to be measured."""

import dataclasses
from typing import Any

import httpx2
import openai

from tokenswarm.api_error import api_error
from tokenswarm.client import ChatClient
from tokenswarm.complaint import (
    BASE,
    PROXY_WANTS_CREDENTIALS,
    PreflightError,
    name_list,
    proxy_wants_credentials,
    refused_key,
    said,
    unreachable,
)
from tokenswarm.errors import page_words
from tokenswarm.masking import masked
from tokenswarm.record import one_line
from tokenswarm.target import Target

MODELS_LIMIT_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What `GET /models` brought: the entries as sent, or why there are none."""

    entries: tuple[dict[str, Any], ...] = ()
    refusal: str | None = None  # HTTP 404 and said "Not Found"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(entry["id"]) for entry in self.entries)


def list_models(client: ChatClient, target: Target) -> Listing:
    """The server's own list. Raises PreflightError where it is no LLM server, refuses the key or cannot be reached."""
    where = target.shown_url("/models")
    timeout = httpx2.Timeout(MODELS_LIMIT_S, connect=client.settings.limits.connect_s)
    try:
        page = client.openai.with_options(timeout=timeout).models.with_raw_response.list()
        listed = page.http_response.json()
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise PreflightError(
            refused_key(target, client.settings, error.status_code, client.way) + said(_words(error, client))
        ) from None
    except openai.APITimeoutError as error:
        if isinstance(error.__cause__, httpx2.ConnectTimeout):
            raise PreflightError(unreachable(target, error.__cause__)) from None
        raise PreflightError(
            f"{where} did not answer within {MODELS_LIMIT_S:g} s. Is the server still loading its model?"
        ) from None
    except openai.APIConnectionError as error:
        raise PreflightError(unreachable(target, error.__cause__ or error)) from None
    except openai.APIStatusError as error:
        if error.status_code == PROXY_WANTS_CREDENTIALS and client.way is not None:
            raise PreflightError(proxy_wants_credentials(client.way)) from None
        # some servers have no list; the request that follows tells more
        words = _words(error, client)
        return Listing(refusal=f"HTTP {error.status_code}" + (f' and said "{words}"' if words else ""))
    except ValueError:
        raise PreflightError(
            f"{where} is no OpenAI-compatible server: it answered with something that is not JSON. {BASE}"
        ) from None
    data = listed.get("data") if isinstance(listed, dict) else listed
    entries = data if isinstance(data, list) else []
    return Listing(entries=tuple(item for item in entries if isinstance(item, dict) and "id" in item))


def _words(error: openai.APIStatusError, client: ChatClient) -> str:
    """What the server said with an error status, on one short line."""
    text = error.response.text
    try:
        body = error.response.json()
    except ValueError:
        body = None
    found = api_error(body, bare=True) if isinstance(body, dict) else None
    words = (found.message if found else None) or (page_words(text) if text.lstrip().startswith("<") else text)
    return masked(one_line(" ".join(words.split()), 200), client.secrets)


def choose_model(asked: str | None, listing: Listing, target: Target) -> str:
    """The asked one, else the only one. Raises PreflightError where that is not decided."""
    if asked:
        return asked
    models = listing.names
    if len(models) == 1:
        return models[0]
    if not models:
        where = target.shown_url("/models")
        why = f"{where} answered {listing.refusal}" if listing.refusal else f"{where} lists no models"
        raise PreflightError(
            f"Which model to measure is not known: {why}. Name it with MODEL=… (--model), "
            f"or correct TARGET={target.address} if that is not the API's base URL."
        )
    raise PreflightError(
        f"The server serves {len(models)} models; name the one to measure with MODEL=… (--model):\n{name_list(models)}"
    )
