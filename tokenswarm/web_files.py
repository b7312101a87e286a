"""Downloads: the files of the run as they are now, and the report of a finished run."""

import sys
from pathlib import Path
from typing import Any

from gevent import subprocess
from gevent.lock import BoundedSemaphore

from tokenswarm.runfolder import HEALTH_OF_ALL, REQUESTS_OF_ALL, RUN, STEPS, SUMMARY
from tokenswarm.servers import FILE as SERVER

OFFERED = (STEPS, SUMMARY, REQUESTS_OF_ALL, HEALTH_OF_ALL, SERVER, RUN)
REPORT = "report.html"
LIMIT_S = 600.0
ROOT = Path(__file__).resolve().parent.parent

_one_at_a_time = BoundedSemaphore()


class ReportError(Exception):
    """The report cannot be had; its text says why, to a person."""


def listed(folder: Path) -> list[dict[str, Any]]:
    """Files that can be had now: name and bytes."""
    paths = [path for pattern in OFFERED for path in sorted(folder.glob(pattern))]
    return [{"name": path.name, "bytes": path.stat().st_size} for path in paths if path.is_file()]


def offered(folder: Path, name: str) -> Path | None:
    """The file called `name`, if it is one of those."""
    return next((folder / one["name"] for one in listed(folder) if one["name"] == name), None)


def report(folder: Path) -> Path:
    """The report, made now unless it is there. Takes seconds, in a process of its own. Raises ReportError."""
    path = folder / REPORT
    with _one_at_a_time:
        if path.is_file():
            return path
        command = [sys.executable, "-m", "analysis", "report", str(folder.resolve())]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise ReportError(f"The report took longer than {LIMIT_S:.0f} s. Make it with make report.") from None
        if done.returncode or not path.is_file():
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise ReportError(f"The report could not be made: {last[0]}")
    return path
