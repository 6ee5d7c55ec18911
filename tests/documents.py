"""Reading the project's documents: fenced blocks, tables, links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Command:
    """One command line of a document."""

    document: Path
    line: str

    def __str__(self) -> str:
        return f"{self.document.name}: {self.line}"


def names(path: Path) -> str:
    """A document's path as a test id."""
    return str(path.relative_to(ROOT))


def blocks(document: Path, *languages: str) -> list[str]:
    """The text of the fenced blocks in any of `languages`, in order."""
    return [text for language, text in FENCE.findall(document.read_text(encoding="utf-8")) if language in languages]


def commands() -> list[Command]:
    """The commands in the `console` and `sh` blocks of all documents; `\\` at the end of a line joins the next."""
    return [
        Command(document, line.removeprefix("$ ").strip())
        for document in DOCUMENTS
        for block in blocks(document, "console", "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]


def links(document: Path) -> list[str]:
    """The targets of the links and pictures outside of fenced blocks that are paths, without their fragments."""
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    targets = [target for target in LINK.findall(text) if "://" not in target]
    return [path for path in (target.partition("#")[0] for target in targets) if path]


def table_rows(document: Path, heading: str | None = None) -> list[list[str]]:
    """The cells of all table rows, of those below the `## heading` if one is given; header rows are left out."""
    text = document.read_text(encoding="utf-8")
    if heading is not None:
        _, found, text = text.partition(f"\n## {heading}\n")
        assert found, f"{document.name} has no heading {heading!r}"
        text = text.partition("\n## ")[0]
    rows = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not line.startswith("|---") and not following.startswith("|---"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows
