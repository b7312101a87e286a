"""TokenSwarm's part of Locust's web UI: the checked form, the LLM tab, the live page, downloads, /metrics.

Everything stands behind Locust's own login where `--web-login` asks for one.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify, make_response, request, send_file, send_from_directory

from tokenswarm import prometheus, web_tab
from tokenswarm.web_files import ReportError, offered, report
from tokenswarm.web_form import check_form
from tokenswarm.web_guard import guard
from tokenswarm.web_state import state

PAGES = Path(__file__).parent / "pages"
PAGE = "live.html"
POLICY = "default-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"

View = Callable[..., Any]


def add_pages(environment: Any) -> None:
    """Before Locust's web server starts."""
    ui = environment.web_ui
    guard(ui.app, ui.host)
    ui.app.json.sort_keys = False  # the form has the order of the command line: Flask and Jinja would sort it
    ui.app.jinja_env.policies["json.dumps_kwargs"] = {}
    ui.template_args |= web_tab.TEMPLATE_ARGS
    environment.events.reset_stats.add_listener(lambda **_: reset(environment))
    _wrap(environment, "locust.swarm", functools.partial(check_form, environment))
    _wrap(environment, "locust.request_stats", functools.partial(with_tab, environment))
    _wrap(environment, "locust.index", with_link)
    ui.app.register_blueprint(_blueprint(environment), url_prefix=environment.parsed_options.web_base_path or None)


def _wrap(environment: Any, name: str, wrapper: Callable[[View], View]) -> None:
    """Put `wrapper` around a view of Locust's, inside its login."""
    views = environment.web_ui.app.view_functions
    views[name] = environment.web_ui.auth_required_if_enabled(wrapper(views[name]))


def reset(environment: Any) -> None:
    if environment.tokenswarm_shown is not None:
        environment.tokenswarm_shown.reset()


def with_tab(environment: Any, view: View) -> View:
    """Locust's statistics with the rows of our tab."""

    @functools.wraps(view)
    def extended(*args: Any, **kwargs: Any) -> Any:
        response = make_response(view(*args, **kwargs))
        told = response.get_json(silent=True)
        if not isinstance(told, dict):
            return response
        return jsonify(told | {"extended_stats": web_tab.table(environment.tokenswarm_shown)})

    return extended


def with_link(view: View) -> View:
    """Locust's page with a link to ours."""

    @functools.wraps(view)
    def linked(*args: Any, **kwargs: Any) -> Any:
        page = view(*args, **kwargs)
        return page.replace("</body>", f"{web_tab.LINK}</body>") if isinstance(page, str) else page

    return linked


def _blueprint(environment: Any) -> Blueprint:
    ours = Blueprint("tokenswarm", __name__)
    protected = environment.web_ui.auth_required_if_enabled

    def route(path: str, view: View) -> None:
        ours.add_url_rule(path, view.__name__, protected(view))

    def page() -> Response:
        return _safe(send_from_directory(PAGES, PAGE))

    def asset(name: str) -> Response:
        return _safe(send_from_directory(PAGES, name))

    def now() -> Response:
        known = (request.args.get(name, -1, type=int) for name in ("generation", "rows"))
        return jsonify(state(environment.tokenswarm_shown, request.args.get("run", ""), *known))

    def file(name: str) -> Response:
        run = environment.tokenswarm_shown
        path = None if run is None else offered(run.folder.path, name)
        if path is None:
            return _text("There is no such file of this run.\n", 404)
        return send_file(path.resolve(), as_attachment=True, download_name=f"{run.folder.run_id}-{name}", max_age=0)

    def finished_report() -> Response:
        run = environment.tokenswarm_shown
        if run is None or not run.is_over:
            return _text(
                "The report is made when the run has ended: while it goes on, making it would slow it down.\n", 409
            )
        try:
            return send_file(report(run.folder.path).resolve(), max_age=0)
        except ReportError as error:
            return _text(f"{error}\n", 500)

    def metrics() -> Response:
        return Response(prometheus.page(environment.tokenswarm_shown), content_type=prometheus.CONTENT_TYPE)

    route("/tokenswarm/", page)
    route("/tokenswarm/pages/<name>", asset)
    route("/tokenswarm/now", now)
    route("/tokenswarm/files/<name>", file)
    route("/tokenswarm/report", finished_report)
    route("/metrics", metrics)
    return ours


def _safe(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = POLICY
    response.headers["Cache-Control"] = "no-cache"
    return response


def _text(words: str, code: int) -> Response:
    return Response(words, code, mimetype="text/plain")
