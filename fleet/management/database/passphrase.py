from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from backups.self_backup import backing_up
from declarations.surfaces.commands.base import TerminalCommand
from sealing.encryption import Unsealable

HELP = "Print the passphrase of the scheduler's own backups, for paper."
PAPER = """\
The passphrase of the scheduler's own backups:

    {passphrase}

Keep it on paper, away from this machine. With it and the repository, on a new machine:

    backupsched database restore REPOSITORY
"""


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    try:
        passphrase = backing_up.print_passphrase()
    except Unsealable as error:
        raise CommandError(str(error)) from None
    command.answer({"passphrase": passphrase}, PAPER.format(passphrase=passphrase))
