"""A run that has something for every plot, and whose texts would all like to be markup."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "analysis"))

from run_on_paper import T0, cancelled, failed, health, ok, step, told, write_run

EVIL = '</script><script>window.hacked=1</script><b class="evil">&amp;</b><img src=x onerror="window.hacked=2">'


def nasty_run(folder: Path) -> Path:
    """Steps of 1, 5 and 20 users over 15 s each; the last one fails by half."""
    rows = []
    for number, (users, every_s, slow) in enumerate(((1, 0.1, 1), (5, 0.04, 3), (20, 0.02, 9))):
        for index in range(int(14.5 / every_s)):
            at_s = number * 15 + index * every_s
            first_ms = slow * (20 + index % 13)
            gaps = [slow * (5 + (index + place) % 3) for place in range(2 + index % 4, 40)]
            times = [first_ms + sum(gaps[:place]) for place in range(len(gaps))]
            name, user = f"{number}-{index}-{EVIL[:20]}", f"u{index % users}"
            if users == 20 and index % 2:
                rows.append(failed(name, at_s, 40, detail=f"{EVIL} no. {index % 3}", user=user))
            else:
                rows.append(ok(name, at_s, times, user=user, prompt_tokens=20 + 7 * (index % 50)))
        rows.append(cancelled(f"{number}-stopped", number * 15 + 14.6, 300, user="u0"))
    steps = [step(number + 1, users, number * 15, number * 15 + 15) for number, users in enumerate((1, 5, 20))]
    healths = [health(second, users=(1, 5, 20)[(second - 1) // 15]) for second in range(1, 46)]
    server = [told(s, EVIL[:20], running=float(s % 7), waiting=float(s), kv_cache_ratio=s / 50) for s in range(45)]
    about = {
        "model": f"model {EVIL}",
        "target": f"http://server:8000/v1?{EVIL}",
        "run_id": f"{folder.name} {EVIL}",
        "conditions": {"prompt_tokens": 100, "gpu": EVIL, EVIL: "value", "engine": None, "note": folder.name},
        "options": {"extra_body": EVIL},
        "versions": {"locust": "2"},
        "slos": {"ttft_p95": 0.2},
        "ended_at": T0 + 45,
    }
    return write_run(folder, rows, steps, healths, step_time_s=15, warmup_s=2, server=server, **about)
