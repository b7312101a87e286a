"""Requests that no page of ours makes are refused: other sites' pages can reach a loopback address through a browser.

Locust answers every origin (CORS), and its form is a simple POST. A request with a foreign `Origin`, and on a loopback
bind one for a foreign host name (DNS rebinding), is turned away.
"""

import ipaddress
from urllib.parse import urlsplit

from flask import Flask, Response, request

LOCAL_NAME = "localhost"


def guard(app: Flask, bound_to: str) -> None:
    """For all of `app`, bound to the address `bound_to`."""
    loopback = is_loopback(bound_to)

    @app.before_request
    def refuse_foreign() -> Response | None:
        host = urlsplit(f"//{request.host}").hostname or ""
        if loopback and not is_loopback(host):
            return Response("This page answers to localhost only.\n", 403, mimetype="text/plain")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            return Response("Another site's page may not use this one.\n", 403, mimetype="text/plain")
        return None

    def keep_to_ourselves(response: Response) -> Response:
        response.headers.pop("Access-Control-Allow-Origin", None)
        return response

    # the first of the list is called last: after Locust's own, which lets every origin in
    app.after_request_funcs.setdefault(None, []).insert(0, keep_to_ourselves)


def is_loopback(name: str) -> bool:
    if name == LOCAL_NAME or name.endswith(f".{LOCAL_NAME}"):
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
