"""A table as data, and as HTML: one place where cells are escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    kind  how it looks: "good", "bad", "doubt", "muted", or "" plain; never the only carrier of meaning
    note  a second, smaller line
    more  what the note opens, evidence for example
    """

    text: str
    kind: str = ""
    note: str = ""
    more: str = ""


DASH = Cell("—", "muted")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with a caption.

    numeric    the columns that hold numbers: right-aligned by a class of the table, see `NUMERIC_CSS`
    key        its id; a table with one gets filters from the script
    row_heads  how many leading cells of a row name it
    picks      the columns by whose values a reader may filter
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell | str, ...], ...]
    numeric: frozenset[int] = frozenset()
    key: str = ""
    row_heads: int = 1
    picks: frozenset[int] = frozenset()

    @property
    def html(self) -> Markup:
        """The table. What HTML lets one omit is omitted: there may be ten thousand rows."""
        head = "".join(f"<th scope=col>{escape(text)}" for text in self.head)
        body = "\n".join("<tr>" + "".join(map(self._cell, range(len(row)), row)) for row in self.rows)
        key = f' id="{escape(self.key)}"' if self.key else ""
        classes = [f"c{column}" for column in sorted(self.numeric)]
        classes += [f"f{column}" for column in sorted(self.picks)]
        return Markup(
            f'<table{key} class="{" ".join(classes)}"><caption>{escape(self.caption)}</caption>'
            f"<thead><tr>{head}</thead>\n<tbody>{body}</tbody></table>"
        )

    def _cell(self, column: int, cell: Cell | str) -> str:
        tag = "th" if column < self.row_heads else "td"
        if isinstance(cell, str):
            return f"<{tag}>{escape(cell)}"
        kind = f" class={escape(cell.kind)}" if cell.kind else ""
        note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
        if cell.more:
            opened = f"<small>{escape(cell.more)}</small>"
            note = f"<details class=more><summary>{note}</summary>{opened}</details>"
        return f"<{tag}{kind}>{escape(cell.text)}{note}"


#: Rules per column position instead of a class per cell.
NUMERIC_CSS = "\n".join(
    f".c{i} tr > :nth-child({i + 1}) {{ text-align: right; }} "
    f".c{i} td:nth-child({i + 1}) {{ white-space: nowrap; }}"
    for i in range(60)
)


def capped(grid: Grid, most: int) -> Grid:
    """The first rows of a table; its caption says what was left out."""
    if len(grid.rows) <= most:
        return grid
    caption = (
        f"{grid.caption} (the first {most} of {len(grid.rows):,} rows; all numbers are in the full data)"
    )
    return replace(grid, caption=caption, rows=grid.rows[:most])


def columns(head: Sequence[str], *names: str) -> frozenset[int]:
    """The positions of the named columns."""
    return frozenset(head.index(name) for name in names if name in head)
