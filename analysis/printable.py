"""Text that others wrote (names of models, errors of servers) on its way to a terminal, a page or XML."""


def printable(text: str) -> str:
    """One line without the characters that steer a terminal, reverse the writing or are none at all."""
    return "".join(char if char.isprintable() else " " for char in text)
