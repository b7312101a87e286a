"""The arrows between the folders run one way, and importing has no effect. Read from the sources, not by import."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent
OTHER_FOLDERS = {"locustfiles", "scenarios", "analysis", "simulator", "demo", "bench", "tests"}
SANS_IO = ("sse.py", "chat_stream.py")


def sources(folder: str) -> list[Path]:
    return sorted((REPO / folder).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Top-level names of all that a file imports, at its top or later, by statement or by importlib.import_module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0] if node.level == 0 else path.parent.name
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            yield str(name.value).partition(".")[0] if isinstance(name, ast.Constant) else "?"


def offenders(folder: str, forbidden: set[str]) -> list[str]:
    return [
        f"{path.relative_to(REPO)} imports {name}"
        for path in sources(folder)
        for name in sorted(set(imported(path)) & forbidden)
    ]


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True, check=True, timeout=60)
    return [REPO / name for name in listed.stdout.split("\0") if name and (REPO / name).is_file()]


def test_the_reader_of_imports_sees_each_kind(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import a.b, c\nfrom d.e import f\ndef g():\n    from h import i\n    importlib.import_module('j.k')\n"
    )
    assert sorted(imported(file)) == ["a", "c", "d", "h", "j"]


def test_the_core_imports_no_other_folder() -> None:
    assert sources("tokenswarm")
    assert offenders("tokenswarm", OTHER_FOLDERS) == []


@pytest.mark.parametrize("folder", ["locustfiles", "scenarios", "analysis", "simulator", "demo"])
def test_folders_import_the_core_and_themselves_only(folder: str) -> None:
    assert offenders(folder, OTHER_FOLDERS - {folder}) == []


def test_the_analysis_never_imports_locust_or_gevent() -> None:
    assert offenders("analysis", {"locust", "gevent"}) == []


@pytest.mark.parametrize("folder", ["tokenswarm", "locustfiles", "scenarios"])
def test_no_pandas_in_a_locust_process(folder: str) -> None:
    assert offenders(folder, {"pandas", "matplotlib", "scipy"}) == []


@pytest.mark.parametrize("name", SANS_IO)
def test_the_parsers_know_no_clock_and_no_socket(name: str) -> None:
    names = set(imported(REPO / "tokenswarm" / name))
    assert not names & {"time", "socket", "datetime", "select", "ssl", "gevent"}


def test_locust_files_bear_no_package_name() -> None:
    """A locustfile is loaded under its bare name, its folder first on the path: it would hide the package."""
    used = {name for folder in ("tokenswarm", *OTHER_FOLDERS) for path in sources(folder) for name in imported(path)}
    used |= set(sys.stdlib_module_names) | OTHER_FOLDERS | {"tokenswarm"}
    named = {path.stem for folder in ("locustfiles", "scenarios") for path in (REPO / folder).glob("*.py")}
    assert named
    assert not named & used


EFFECTS = """
import importlib, json, pkgutil, signal, socket, sys, threading
from gevent import monkey
from locust import events
from locust.event import EventHook

hooks = {name: hook for name, hook in vars(events).items() if isinstance(hook, EventHook)}
assert hooks, "locust keeps its events elsewhere now"
assert not monkey.is_module_patched("socket"), "locust patches although it was told not to"
before = {name: list(hook._handlers) for name, hook in hooks.items()}
patched = {name: monkey.is_module_patched(name) for name in ("ssl", "socket", "threading", "time")}
handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
import tokenswarm
names = [m.name for m in pkgutil.walk_packages(tokenswarm.__path__, "tokenswarm.") if not m.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(json.dumps({
    "names": names,
    "listeners": [name for name, hook in hooks.items() if hook._handlers != before[name]],
    "patched": [name for name, was in patched.items() if monkey.is_module_patched(name) != was],
    "signals": [int(number) for number, was in handlers.items() if signal.getsignal(number) != was],
    "threads": threading.active_count(),
}))
"""


def test_importing_any_module_of_the_core_has_no_effect() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EFFECTS],
        cwd=REPO,
        env={**os.environ, "LOCUST_SKIP_MONKEY_PATCH": "1"},  # importing locust patches: that would hide our own
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)  # nothing but this line: importing prints nothing either
    assert len(seen["names"]) == len([path for path in sources("tokenswarm") if path.name != "__init__.py"]) + 1
    assert (seen["listeners"], seen["patched"], seen["signals"], seen["threads"]) == ([], [], [], 1)


def test_no_module_of_the_core_patches_when_imported_alone() -> None:
    """`import locust` patches itself; what does not need it must not bring gevent's patches along."""
    code = (
        "import tokenswarm.sse, tokenswarm.chat_stream, tokenswarm.record, tokenswarm.metrics, tokenswarm.workload\n"
        "import sys; print('gevent' in sys.modules, 'locust' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "False", "False"]


def test_no_tracked_file_speaks_of_one_machine() -> None:
    marks = [b"/" + b"work/", b"shared" + b"/cases", b"shared" + b"/design"]  # in pieces, or this file would be found
    found = [
        f"{path.relative_to(REPO)}: {mark.decode()}"
        for path in tracked()
        for mark in marks
        if mark in path.read_bytes()
    ]
    assert found == []
