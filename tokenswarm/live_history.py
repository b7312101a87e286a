"""The timeline of a run at its master: a row about every second, fewer as a run grows long, never more than MOST_ROWS."""

from typing import Any

MOST_ROWS = 1800


class History:
    """Rows of numbers, None for unknown. `since` gives what a page does not have yet.

    When it is full, every other row is dropped and rows come half as often from then on: a day fits as well as a minute.
    `generation` counts those droppings, and resets: whoever holds rows of another generation asks for all of them.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._rows: list[list[Any]] = []
        self._every = 1
        self._skipped = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: list[Any]) -> None:
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self._rows.append(row)
        if len(self._rows) >= MOST_ROWS:
            self._rows = self._rows[1::2]
            self._every *= 2
            self.generation += 1

    def reset(self) -> None:
        self._rows, self._every, self._skipped = [], 1, 0
        self.generation += 1

    def since(self, generation: int, rows: int) -> tuple[int, list[list[Any]]]:
        """(number of the first row, rows) for somebody who has the first `rows` of `generation`."""
        first = rows if generation == self.generation and 0 <= rows <= len(self._rows) else 0
        return first, self._rows[first:]
