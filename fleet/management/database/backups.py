from argparse import ArgumentParser
from typing import Any

from backups.self_backup import backing_up
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns
from sources.models import SelfBackup

COLUMNS = columns("day", "done (UTC)", "repository", "file", "bytes>")
HELP = (
    "List the scheduler's own backups: its database, keys and settings go into a repository each day, sealed by a "
    "passphrase."
)


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    rows = SelfBackup.objects.select_related("repository")[: backing_up.KEEP]
    names = ("day", "ended_at", "file", "size")
    facts = [{name: getattr(row, name) for name in names} | {"repository": str(row.repository or "")} for row in rows]
    empty = "The scheduler itself has not been backed up yet: `doctor` has the reason."
    command.list_out(facts, COLUMNS, _row, empty)


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    done = f"{facts['ended_at']:%Y-%m-%d %H:%M:%S}" if facts["ended_at"] else "not yet"
    return facts["day"], done, facts["repository"], facts["file"], f"{facts['size'] or 0:,}"
