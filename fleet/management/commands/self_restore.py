import getpass
import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from backups.self_backup import archive, restoring
from external.formatting import reason_of
from external.processes.programs import ProgramMissing
from storage.points.store import StorageFailed
from storage.recover import program


class Command(BaseCommand):
    help = (
        "Bring the scheduler back on an empty machine, from its own backup in REPOSITORY: database, keys and settings. "
        "Asks for the passphrase that `self_backup passphrase` printed. Never touches an installation that has a "
        "database."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        program.add_repository(parser)
        parser.add_argument("--list", action="store_true", help="only list the backups that are there")
        parser.add_argument("--at", metavar="NAME", help="that one, as --list names it; default: the newest")
        parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="default: ask, or standard input")
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            place = program.location_of(options)
            if options["list"]:
                names = restoring.archives(place)
                self.stdout.write(json.dumps(names) if options["json"] else "\n".join(names))
                return
            passphrase = self._passphrase(options["passphrase_file"])
            restored = restoring.restore(place, passphrase, options["at"], self._report)
        except (
            restoring.CannotRestore, archive.WrongPassphrase, archive.TooSlow, archive.ArchiveDamaged, StorageFailed,
            ProgramMissing, ValueError,
        ) as error:  # fmt: skip
            raise CommandError(str(error), returncode=2) from None
        except OSError as error:
            raise CommandError(f"{error.filename}: {reason_of(error)}") from None
        call_command("migrate", verbosity=0)
        self._say(restored, as_json=options["json"])

    def _passphrase(self, file: Path | None) -> str:
        if file is not None:
            return file.read_text()
        return getpass.getpass("Passphrase: ") if sys.stdin.isatty() else sys.stdin.readline()

    def _report(self, text: str) -> None:
        self.stderr.write(text)

    def _say(self, restored: restoring.Restored, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(asdict(restored)))
            return
        self.stdout.write(f"The scheduler is back as it was at {restored.made_at}, in {settings.VAR_DIR}.")
        for path in restored.files:
            self.stdout.write(f"  {path}")
        for path, why in restored.not_written.items():
            self.stdout.write(f"  not written: {path}: {why}")
        if restored.differing:
            names = ", ".join(restored.differing)
            self.stdout.write(
                f"Its environment was another one: {names}. Their values are in "
                f"{settings.VAR_DIR / restoring.ENVIRONMENT_FILE}; set them, then delete that file."
            )
        self.stdout.write("Next: start workers, clock and web process as before; `doctor` says what is left.")
