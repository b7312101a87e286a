"""A user's mistake: shown as its sentence, never as a traceback."""


class UsageError(Exception):
    """The message says what was expected, what was found, where, and what to do."""
