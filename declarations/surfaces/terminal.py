"""Tables and lines for a terminal. The library that draws them is loaded when something is drawn: half of the commands
draw nothing, and start sooner."""

import io
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from declarations.surfaces.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

PIPE_WIDTH = 200
"""The number of columns without a terminal: wide enough that nothing is folded."""

STYLES = {"failed": "red", "silent": "red", "paused": "yellow", "running": "cyan", "succeeded": "green"}


@dataclass(frozen=True)
class Column:
    """A heading, and whether its column holds numbers."""

    heading: str
    number: bool = False


def columns(*headings: str) -> list[Column]:
    """Columns with these headings; those that end with `>` hold numbers."""
    return [Column(heading.rstrip(">"), heading.endswith(">")) for heading in headings]


def text_of(renderable: "RenderableType", *, terminal: bool = False) -> str:
    """`renderable` as text: in colour and as wide as the terminal, or plain."""
    from rich.console import Console

    width = shutil.get_terminal_size().columns if terminal else PIPE_WIDTH
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, highlight=False)
    console.print(renderable)
    written = console.file.getvalue()  # type: ignore[attr-defined]
    return printable("\n".join(line.rstrip() for line in written.split("\n")).rstrip("\n"), colours=terminal)


def one_line(value: object) -> str:
    """A text of an engine or user on one line, which cannot steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in str(value))


def plain(value: object) -> "Text":
    """A cell of one line."""
    from rich.text import Text

    text = one_line(value)
    return Text(text, style=STYLES.get(text, ""), overflow="fold")


def table(under: Sequence[Column], rows: Iterable[Sequence[object]]) -> "Table":
    """A table of plain cells."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in under:
        made.add_column(column.heading, justify="right" if column.number else "left")
    for row in rows:
        made.add_row(*(plain(cell) for cell in row))
    return made
