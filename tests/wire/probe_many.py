"""Runs the probe's command line many times in one process: loading it takes longer than most recorded answers.

Each line on stdin is a JSON list of arguments; each line on stdout a JSON list of what the probe printed for it.
"""

import contextlib
import io
import json
import sys

from tokenswarm import probe

for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        probe.main(json.loads(line))
    print(json.dumps([json.loads(row) for row in printed.getvalue().splitlines()]), flush=True)
