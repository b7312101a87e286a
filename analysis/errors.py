"""What goes wrong with a run folder, in one sentence a person can act on."""


class RunError(Exception):
    """A run folder, or a cell of one of its files, cannot be read. The text names file and line, and what to do."""
