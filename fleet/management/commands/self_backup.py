from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from backups.self_backup import backing_up
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns
from sealing.encryption import Unsealable
from sources.models import SelfBackup

PAPER = """\
The passphrase of the scheduler's own backups:

    {passphrase}

Keep it on paper, away from this machine. With it and the repository, on a new machine:

    backupsched self_restore REPOSITORY
"""

COLUMNS = columns("day", "done (UTC)", "repository", "file", "bytes>")


class Command(VerbCommand):
    help = (
        "The scheduler's own backups: its database, keys and settings go into a repository each day, sealed by a "
        "passphrase. `passphrase` prints that, for paper. Without a verb: the last ones."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", nargs="?", choices=["list", "passphrase"], help="default: list")
        parser.add_argument("--json", action="store_true", help="print the list as JSON")

    def _passphrase(self, options: dict[str, Any]) -> None:
        try:
            self.stdout.write(PAPER.format(passphrase=backing_up.print_passphrase()))
        except Unsealable as error:
            raise CommandError(str(error)) from None

    def _list(self, options: dict[str, Any]) -> None:
        rows = SelfBackup.objects.select_related("repository")[: backing_up.KEEP]
        names = ("day", "ended_at", "file", "size")
        facts = [
            {name: getattr(row, name) for name in names} | {"repository": str(row.repository or "")} for row in rows
        ]
        empty = "The scheduler itself has not been backed up yet: `doctor` says why."
        self.list_out(facts, COLUMNS, _row, empty)


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    done = f"{facts['ended_at']:%Y-%m-%d %H:%M:%S}" if facts["ended_at"] else "not yet"
    return facts["day"], done, facts["repository"], facts["file"], f"{facts['size'] or 0:,}"
