"""Options and output of restores at a terminal: `restores` and `recover` share them."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, _MutuallyExclusiveGroup
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from storage import layout
from storage.points.exception_texts import when
from storage.points.manifests import Entry
from storage.points.trees import Tree
from storage.restoring import moments
from storage.restoring.base import Report, RestoreProgress

SHOWN_NAMES = 10


def add_options(parser: ArgumentParser, zone: str) -> None:
    """Add all arguments of `recover` about a point and its target. `zone`: whose wall clock times are meant."""
    add_point(parser, zone)
    where = add_target(parser)
    where.add_argument(
        "--list", action="store_true", help="show the points; with --at or --path the contents of a folder"
    )
    parser.add_argument("--json", action="store_true", help="print JSON; while it runs, an object a line")


def add_point(parser: ArgumentParser, zone: str) -> None:
    """Add the arguments for a point, and the paths in it. `zone`: whose wall clock times are meant."""
    parser.add_argument(
        "--at", type=given("a time"), metavar="TIME",
        help="the newest point at or before: 24h (ago), yesterday, 2026-03-02 (its end), 2026-03-02T12:00 in the zone "
        f"of {zone}, 2026-03-02T12:00+01:00; or the name of a point, for that very one (the newest)",
    )  # fmt: skip
    parser.add_argument(
        "--path", type=given("a file or folder"), action="append", default=[], metavar="PATH",
        help="a file or folder of the source, without / before it; several: give it again (all)",
    )  # fmt: skip


def add_target(parser: ArgumentParser) -> _MutuallyExclusiveGroup:
    """Add the target, and the way it is written. Returns the group of targets, one of which is required."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", type=_folder, metavar="FOLDER", help="where to: paths below it are those of the source")
    parser.add_argument(
        "--overwrite", action="store_true",
        help="also into a folder that is not empty: files that differ are replaced, other files stay",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="count and name the files that would be replaced, write nothing"
    )
    return where


def given(what: str) -> Callable[[str], str]:
    """The type of an option that is not empty, such as from an unset shell variable: that would be the newest
    point, all paths, or the current folder.
    """

    def read(written: str) -> str:
        if not written:
            raise ArgumentTypeError(f"name {what}: this is empty")
        return written

    return read


def _folder(written: str) -> Path:
    return Path(given("a folder")(written))


TreeOf = Callable[[str], AbstractContextManager[Tree]]
"""Opens the tree of a point, by its name."""


def listed(
    points: list[str], tree_of: TreeOf, options: dict[str, Any], now: datetime, zone: tzinfo
) -> tuple[list[dict[str, Any]], Callable[[dict[str, Any]], str]]:
    """The rows that `--list` shows of an assignment, and the function that writes a row. Raises: ValueError."""
    if not (options["at"] or options["path"]):
        return of_points(points, zone), line_of_point
    point = moments.choose(points, options["at"], now, zone)
    paths = [path.rstrip("/") for path in options["path"]] or [""]
    with tree_of(point) as tree:
        return [row for path in paths for row in of_folder(tree, path)], line_of_entry


def of_points(points: list[str], zone: tzinfo) -> list[dict[str, Any]]:
    """The points, the newest first."""
    found = ((each, layout.instant_of(each)) for each in reversed(points))
    return [{"point": name, "at": at.isoformat(), "local": moments.in_zone(at, zone)} for name, at in found]


def of_folder(tree: Tree, path: str) -> Iterator[dict[str, Any]]:
    """The entries directly in a folder of a point, or a file itself. Raises: NotThere."""
    tree.check(path)
    entry = tree.entry(path)
    if entry and entry.kind != "folder":
        yield _facts(entry)
        return
    after = ""
    while rows := tree.folder(path, after=after):
        yield from (_facts(row.entry) for row in rows)
        after = rows[-1].name


def line_of_point(facts: dict[str, Any]) -> str:
    return f"{facts['point']}  {facts['local']}"


def line_of_entry(facts: dict[str, Any]) -> str:
    name = printable(facts["path"]) + ("/" if facts["kind"] == "folder" else "")
    modified = f"{facts['modified'][:19]} UTC" if facts["modified"] else ""
    return f"{facts['size']:>15,}  {modified:23}  {name}{_exception(facts)}"


def _exception(facts: dict[str, Any]) -> str:
    if not facts.get("why"):
        return ""
    is_folder, as_of = facts["kind"] == "folder", facts.get("as_of", "")
    what = "could not be listed" if is_folder else f"as of {when(as_of)}" if as_of else "not in this point"
    return printable(f"  ({what}: {facts['why']:.200})")


def printable(text: str) -> str:
    """A text without characters that a terminal would take for a command."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _facts(entry: Entry) -> dict[str, Any]:
    facts = {"path": entry.path, "kind": entry.kind, "size": entry.size, "modified": entry.modified}
    return facts | {name: value for name in ("as_of", "why") if (value := getattr(entry, name))}


def describe(report: Report, *, dry_run: bool) -> list[str]:
    """A description of a report, in sentences that a terminal may print."""
    verb = "would be restored" if dry_run else "restored"
    lines = [f"{counted(report.files)}, {report.size:,} bytes, {verb} to {report.target}"]
    if not (report.complete or report.old or report.missing):
        lines.append("the backup was incomplete: files that it could not read are not in this point")
    lines += report.old + [f"not in this point: {each}" for each in report.missing]
    if (more := report.missing_files - len(report.missing)) > 0:
        lines.append(f"not in this point: {more:,} more")
    if report.present:
        lines.append(f"{counted(report.present)} already there, as in the backup")
    if report.replaced:
        names = ", ".join(report.collisions[:SHOWN_NAMES]) + (", …" if report.replaced > SHOWN_NAMES else "")
        lines.append(f"{counted(report.replaced)} of them {'would replace' if dry_run else 'replaced'} others: {names}")
    lines += [f"not set: {each}" for each in report.not_set] + [f"not restored: {each}" for each in report.failed]
    lines += [report.elsewhere] if report.elsewhere else []
    return [printable(each) for each in lines]


def counted(files: int) -> str:
    return f"{files:,} file{'' if files == 1 else 's'}"


def to_be_repeated(error: object) -> str:
    """An error after which a restore is repeated, with that sentence behind it."""
    text = str(error)
    return f"{text}{'' if text.endswith(('.', '?', '!')) else '.'} The same command continues where it was."


class ProgressDisplay:
    """The progress of a restore: a bar at a terminal, JSON objects on separate lines, otherwise nothing."""

    def __init__(self, write: Callable[[str], object], *, as_json: bool) -> None:
        self._write, self._as_json = write, as_json
        columns = (BarColumn(), DownloadColumn(), TextColumn("{task.fields[files]} files"), TimeRemainingColumn())
        # the stream itself, since the one of commands escapes the characters that move a bar
        console = Console(file=sys.__stderr__)
        self._bar = Progress(*columns, console=console, disable=as_json or not sys.stderr.isatty())
        self._task = self._bar.add_task("", files="")

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, step: RestoreProgress) -> None:
        if self._as_json:
            self._write(json.dumps(asdict(step)))
        files = f"{step.files_done:,} of {step.files_total:,}"
        self._bar.update(self._task, completed=step.bytes_done, total=step.bytes_total, files=files)
