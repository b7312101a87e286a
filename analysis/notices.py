"""What is said in words around the figures: what was measured, the verdicts, the errors, what was withheld and why."""

import pandas as pd
from rich.text import Text

from analysis import names
from analysis.health import Verdict
from analysis.load import Run
from analysis.printable import printable
from analysis.run_state import ended
from analysis.scale import WITHHELD
from analysis.stats import smallest_n
from analysis.verdict_words import doubtful
from analysis.wording import counted, listed, things
from tokenswarm.record import Outcome

STYLE = {Verdict.VALID: "green", Verdict.SUSPECT: "yellow", Verdict.INVALID: "bold red"}


def headline(summary: pd.DataFrame, requests: pd.DataFrame, run: Run) -> list[Text]:
    """What was measured, and how many rows there are: every one of them is accounted for."""
    counts = ", ".join(f"{int((requests.outcome == outcome).sum())} {outcome.value}" for outcome in Outcome)
    model, target = run.info.get("model") or "unknown model", run.info.get("target") or "unknown target"
    lines = [Text(f"{model} at {target}", style="bold")]
    if not (requests.outcome == Outcome.OK).any():
        lines.append(Text("No request was answered: there is no latency to show.", style=STYLE[Verdict.INVALID]))
    if not len(summary):
        lines.append(Text("No step was recorded: there is no window to show.", style=STYLE[Verdict.INVALID]))
    state = ended(run.info)
    if state is not None:
        lines.append(Text(state, style=STYLE[Verdict.SUSPECT]))
    return [*lines, Text(f"{things(len(requests), 'request')} in the whole run: {counts}")]


def verdicts(summary: pd.DataFrame) -> list[Text]:
    """One line for the invalid steps, one for the suspect ones; one line when all are valid."""
    if not len(summary):
        return []
    lines = [
        Text(f"{verdict.upper()} at {counted(loads)}: {reasons}.", style=STYLE[verdict])
        for verdict, loads, reasons in doubtful(summary)
    ]
    return lines or [Text("Every step is valid.", style=STYLE[Verdict.VALID])]


def errors(requests: pd.DataFrame) -> list[Text]:
    """Errors by class over the whole run, each with the words of one of them; none, no lines."""
    bad = requests[requests.outcome.isin([Outcome.FAILED, Outcome.EMPTY])]
    if not len(bad):
        return []
    lines = [Text("Errors in the whole run:", style="bold")]
    for error, rows in sorted(
        bad.groupby(bad.error_class.fillna("unknown")), key=lambda item: (-len(item[1]), item[0])
    ):
        status = rows.http_status.dropna()
        code = f" (HTTP {int(status.mode().iloc[0])})" if len(status) else ""
        words = rows.detail.dropna()
        example = f": {printable(words.iloc[0])}" if len(words) else ""
        lines.append(Text(f"  {len(rows)} × {printable(str(error))}{code}{example}", overflow="ellipsis", no_wrap=True))
    return lines


def footnotes(summary: pd.DataFrame, run: Run, any_withheld: bool) -> list[Text]:
    """What the figures leave open, each said once."""
    lines = []
    if any_withheld:
        need = ", ".join(f"{which} needs {smallest_n(quantile)}" for which, quantile in names.QUANTILES.items())
        lines.append(
            f"{WITHHELD} is withheld: too few samples for a 95 % interval ({need}), or requests still open when the "
            f"window closed. The column {names.WITHHELD} of summary.csv says which."
        )
    if len(summary):
        for note in dict.fromkeys(note for text in summary[names.NOTES] for note in text.split("; ") if note):
            steps = [str(row[names.STEP]) for row in summary.to_dict("records") if note in row[names.NOTES]]
            lines.append(f"Step{'s' if len(steps) > 1 else ''} {listed(steps)}: {note}.")
    lines += [f"{note}." for note in run.notes]
    return [Text(line, style="dim") for line in lines]
