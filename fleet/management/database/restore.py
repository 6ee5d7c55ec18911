import getpass
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from backups.self_backup import archive, restoring
from declarations.surfaces.commands.base import TerminalCommand, ask
from external.formatting import reason_of
from external.processes.programs import ProgramMissing
from jobs.conf import PROGRAM
from storage.points.store import StorageFailed
from storage.recover import program

HELP = (
    "Restore the scheduler on an empty machine from its backup in REPOSITORY: database, keys and settings. "
    f"Asks for the passphrase that `{PROGRAM} database passphrase` printed. Never touches an installation that has a "
    "database."
)


def add_arguments(parser: ArgumentParser) -> None:
    program.add_repository(parser)
    parser.add_argument("--list", action="store_true", help="only list the backups that are there")
    parser.add_argument("--at", metavar="NAME", help="the backup of that name, as --list shows it; default: the newest")
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="default: ask, or standard input")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    try:
        place = program.location_of(options)
        if options["list"]:
            names = restoring.archives(place)
            command.answer(names, "\n".join(names))
            return
        passphrase = _passphrase(options["passphrase_file"])
        restored = restoring.restore(place, passphrase, options["at"], command.stderr.write)
    except (
        restoring.CannotRestore, archive.WrongPassphrase, archive.TooSlow, archive.ArchiveDamaged, StorageFailed,
        ProgramMissing, ValueError,
    ) as error:  # fmt: skip
        raise CommandError(str(error), returncode=2) from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {reason_of(error)}") from None
    call_command("migrate", verbosity=0)
    command.answer(asdict(restored), _as_text(restored))


def _passphrase(file: Path | None) -> str:
    if file is not None:
        return file.read_text()
    return ask(getpass.getpass, "Passphrase: ") if sys.stdin.isatty() else sys.stdin.readline()


def _as_text(restored: restoring.RestoredArchive) -> str:
    """The restored files, the missing ones, and the next steps, as text."""
    lines = [f"The scheduler is back as it was at {restored.made_at}, in {settings.VAR_DIR}."]
    lines += [f"  {path}" for path in restored.files]
    lines += [f"  not written: {path}: {why}" for path, why in restored.not_written.items()]
    if restored.differing:
        names = ", ".join(restored.differing)
        lines.append(
            f"Its environment was different: {names}. Their values are in "
            f"{settings.VAR_DIR / restoring.ENVIRONMENT_FILE}; set them, then delete that file."
        )
    return "\n".join(
        [*lines, "Next: start workers, qcluster and web process as before; `doctor` reports what is left to do."]
    )
