"""Tables of numbers, as plain text and as HTML, whatever the numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A header and rows; text is aligned left, numbers right."""

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    texts: tuple[int, ...] = (0,)  # the columns that are text

    def text(self) -> str:
        """Lay the table out in columns, two spaces apart."""
        lines = [list(self.header), *([show(cell) for cell in row] for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i in self.texts else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def html(self) -> str:
        """Write the table as HTML."""
        from html import escape

        def row(cells: Sequence[Cell], tag: str) -> str:
            kinds = ("" if i in self.texts else ' class="number"' for i in range(len(cells)))
            pairs = zip(cells, kinds, strict=True)
            return "".join(f"<{tag}{kind}>{escape(show(cell))}</{tag}>" for cell, kind in pairs)

        head = row(self.header, "th")
        body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def show(cell: Cell) -> str:
    """Return a count with thousands separators, a score with four digits, "" for None."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.4f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def page(parts: Sequence[str | Table]) -> str:
    """Join sentences and tables as text."""
    return "\n\n".join(part.text() if isinstance(part, Table) else part for part in parts)


def html_page(parts: Sequence[str | Table]) -> str:
    """Join sentences and tables as HTML."""
    from html import escape

    return "".join(
        part.html() if isinstance(part, Table) else f"<p>{escape(part)}</p>" for part in parts
    )
