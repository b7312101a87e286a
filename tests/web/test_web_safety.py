"""What the web UI must not do: crash on bad entries, show secrets, render a server's text, answer to other sites."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.chromium import open_page
from tests.e2e.driving import SCENARIO
from tests.servers import Server
from tests.web.ui import Ui, free_port, locust_ui, serving
from tokenswarm.record import ErrorClass
from tokenswarm.stopping import INTERRUPTED

SECRET = "sk-very-secret-0123456789"
EVIL = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory, simulator: Server) -> Iterator[Ui]:
    flags = (f"--header=X-Token: {SECRET}", "--condition=gpu=H100", "--prometheus-port=0")
    with locust_ui(tmp_path_factory.mktemp("ui"), simulator.base_url, *flags) as started:
        yield started


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("steps", "0", "number of users"),
        ("step_time", "soon", "STEP_TIME"),
        ("warmup", "1h", "shorter"),
        ("prompt_tokens", "many", "no whole number"),
        ("connect_timeout", "abc", "no number"),
        ("seed", "", "SEED"),
        ("slo", "ttft_p95", "--slo"),
        ("condition", "H100", "NAME=VALUE"),
        ("extra_body", "{", "--extra-body"),
        ("model", "no-such-model", "no-such-model"),
        ("host", "http://127.0.0.1:9/v1", "127.0.0.1:9"),
        ("run_name", "../x", "cannot name a run"),
    ],
)
def test_a_bad_entry_is_answered_in_the_page(ui: Ui, field: str, value: str, words: str) -> None:
    answer = ui.start(**{field: value})
    assert not answer["success"]
    assert words in answer["message"]
    assert "Traceback" not in answer["message"]
    assert ui.now()["run"] is None, "nothing has begun"


def test_users_by_hand_are_checked(ui: Ui) -> None:
    for fields in ({"user_count": "0"}, {"user_count": "x"}, {"spawn_rate": "0"}):
        assert not ui.start(shape_class="Default", **fields)["success"]


def test_no_secret_and_no_place_for_one_in_the_form(ui: Ui) -> None:
    page = ui.get("/")[1]
    options = json.loads(page.split("window.templateArgs = ", 1)[1].split("\n", 1)[0])["extra_options"]
    assert not {"header", "api_key_command"} & options.keys()
    assert {"model", "steps", "step_time", "slo", "seed"} <= options.keys()
    assert options["steps"]["default_value"] == "2,6"
    assert next(iter(options)) == "model", "the form has the order of the command line"
    for path in ("/", "/tokenswarm/", "/tokenswarm/now", "/stats/requests", "/logs"):
        assert SECRET not in ui.get(path)[1]


def test_other_sites_get_nothing(ui: Ui) -> None:
    assert ui.post("/swarm", {}, Origin="http://evil.example")[0] == 403
    assert ui.get("/tokenswarm/now", Origin="http://evil.example")[0] == 403
    assert ui.get("/tokenswarm/now", Host="evil.example")[0] == 403
    assert ui.get("/tokenswarm/now", Origin=ui.url)[0] == 200


def test_only_files_of_the_run_can_be_had(ui: Ui) -> None:
    for name in ("..%2f..%2fetc%2fpasswd", "%2e%2e/said/stdout", "nothing.csv"):
        assert ui.get(f"/tokenswarm/files/{name}")[0] == 404
    assert ui.get("/tokenswarm/report")[0] == 409


def test_pages_are_where_they_are_bound(ui: Ui) -> None:
    code, text = ui.get("/metrics")
    assert code == 200
    assert "tokenswarm_run_info" not in text, "no run yet"


def test_make_ui_takes_the_variables_of_make_and_ends_with_ctrl_c(tmp_path: Path, simulator: Server) -> None:
    port = free_port()
    command = [sys.executable, "-m", "tokenswarm.web_start", f"--web-port={port}", f"--results={tmp_path}"]
    made = {"TOKENSWARM_TARGET": simulator.base_url, "TOKENSWARM_STEPS": "3,4"}
    with serving(command, tmp_path, port, **made) as started:
        page = started.get("/")[1]
        assert simulator.base_url in page
        assert '"3,4"' in page
        started.run.interrupt()
        assert started.run.code() == INTERRUPTED
        assert "Traceback" not in started.run.complained
        assert started.run.left_over() == []


class Evil(BaseHTTPRequestHandler):
    """Serves a model, answers the preflight, then fails with markup in its words."""

    asked = 0

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/models"):
            self._send(200, json.dumps({"object": "list", "data": [{"id": EVIL, "object": "model"}]}))
        else:
            self._send(404, "")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Evil.asked += 1
        if Evil.asked > 12:
            self._send(503, json.dumps({"error": {"message": EVIL, "type": EVIL, "code": 503}}))
            return
        usage = {"prompt_tokens": 20 + Evil.asked, "completion_tokens": 1, "total_tokens": 21}
        chunk = {"choices": [{"index": 0, "delta": {"content": EVIL}, "finish_reason": None}]}
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage}
        self._send(200, "".join(f"data: {json.dumps(one)}\n\n" for one in (chunk, last)) + "data: [DONE]\n\n")

    def _send(self, code: int, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/event-stream" if text.startswith("data:") else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def evil() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def test_words_of_a_server_are_text(ui: Ui, evil: str, browser: Browser) -> None:
    errors: list[str] = []
    started = ui.start(host=evil, steps="1", step_time="4s", warmup="0s", prompt_tokens="200", run_name="evil")
    assert started["success"], started
    page = open_page(browser, errors)
    page.goto(f"{ui.url}/tokenswarm/")
    expect(page.locator("#classes")).to_contain_text(ErrorClass.OVERLOADED)
    expect(page.locator("#about")).to_contain_text(EVIL[:20])
    assert "owned" not in page.title().replace(EVIL, "")
    assert page.locator("img").count() == 0
    page.goto(f"{ui.url}/?tab=failures")
    expect(page.get_by_role("cell", name=ErrorClass.OVERLOADED).first).to_be_visible()
    assert page.title() != "owned"
    ui.ended()
    stats = json.loads(ui.get("/stats/requests")[1])
    assert {row["name"] for row in stats["stats"]} == {"chat", "Aggregated"}, "no fake rows in Locust's own table"
    assert "tokenswarm_errors_total" in ui.get("/metrics")[1]
    assert errors == []


def test_locusts_login_covers_our_pages(tmp_path: Path, simulator: Server) -> None:
    login = tmp_path / "login.py"
    login.write_text(
        "from locust import events\n"
        "def add(environment, **_):\n"
        "    if environment.web_ui:\n"
        "        environment.web_ui.app.secret_key = 'key'\n"
        "        environment.web_ui.login_manager.user_loader(lambda name: None)\n"
        "events.init.add_listener(add)\n"
    )
    port = free_port()
    command = [sys.executable, "-m", "locust", "-f", f"{SCENARIO},{login}", "--class-picker", "--web-login"]
    command += ["--web-host=127.0.0.1", f"--web-port={port}", f"--host={simulator.base_url}", f"--results={tmp_path}"]
    with serving(command, tmp_path, port) as locked:
        for path in (
            "/",
            "/tokenswarm/",
            "/tokenswarm/now",
            "/tokenswarm/pages/live.js",
            "/metrics",
            "/stats/requests",
        ):
            text = locked.get(path)[1]
            assert "authArgs" in text, f"{path} is not behind the login"
        locked.start(run_name="r")
        assert not (tmp_path / "r").exists()
