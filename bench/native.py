"""The C parts, compiled when they are needed, where there is a compiler."""

import shutil
import subprocess
import sys
from pathlib import Path

COMPILE_LIMIT_S = 60.0


def compiled(source: str, folder: Path) -> Path | None:
    """The program of `bench/<source>.c`, put into `folder`; None where there is no compiler or it cannot do it."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":  # epoll, timerfd and SO_TIMESTAMPNS are Linux's
        return None
    program = folder / source
    command = [compiler, "-O2", "-o", str(program), str(Path(__file__).with_name(source + ".c"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False)
    if done.returncode != 0:
        print(f"{' '.join(command)} failed; going on without:\n{done.stderr}", file=sys.stderr)
        return None
    return program
