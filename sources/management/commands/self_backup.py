import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from rich.table import Table

from delivery.encryption import Unsealable
from operations.management.base import VerbCommand
from sources.models import SelfBackup
from sources.self_backup import backing_up

PAPER = """\
The passphrase of the scheduler's own backups:

    {passphrase}

Keep it on paper, away from this machine. With it and the repository, on a new machine:

    backupsched self_restore REPOSITORY
"""


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
        if options["json"]:
            facts = ("day", "ended_at", "file", "size")
            shown = [{name: getattr(row, name) for name in facts} | {"repository": str(row.repository)} for row in rows]
            self.stdout.write(json.dumps(shown, default=str))
            return
        table = Table("day", "done at (UTC)", "repository", "file", "bytes")
        for row in rows:
            done = f"{row.ended_at:%Y-%m-%d %H:%M}" if row.ended_at else "not yet"
            table.add_row(str(row.day), done, str(row.repository), row.file, f"{row.size or 0:,}")
        self.print_out(table)
