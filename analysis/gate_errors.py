"""Why a gate cannot be held: wrongly asked, or without evidence. Each text is for a person."""


class GateUsage(Exception):
    """It was asked for wrongly: a budget, an option, a name."""


class NoEvidence(Exception):
    """There is nothing to judge by: no baseline, a damaged one. It never passes."""
