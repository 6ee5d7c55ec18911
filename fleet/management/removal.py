"""`remove` of sources and repositories: at once, or in the background if backups are to be removed with them."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.db import transaction

from backups.upkeep import removals
from declarations.service import Service
from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import one_line
from jobs.conf import PROGRAM

ABOUT = (
    "Delete them. One with backups is deleted in the background: the rows of its backups, and with "
    "--with-backups their files, too. Without it, the files stay in the repository, with RECOVER.txt, which "
    f"describes how to get them back. A source is retired by that. `{PROGRAM} backlog list --kind removal` "
    "shows the progress. To keep backups for as long as their policies say: `sources retire`. Exit codes: 0; 1 "
    "when one is in use; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of `remove` in addition to names."""
    parser.description = ABOUT
    parser.add_argument("--with-backups", action="store_true", help="delete the files of their backups, too")


def remove(command: TerminalCommand, service: Service[Any], rows: Sequence[Any], options: dict[str, Any]) -> None:
    """Remove rows with everything that belongs to them, after one question. All are begun, or none."""
    for row in rows:
        if text := service.obstacle(row) or ". ".join(service.users(row)):  # type: ignore[attr-defined]
            raise ValueError(text)
    goes = removals.contents(list(rows))
    used = [row for row in rows if service.uses(row)]
    files = f", with {goes}, {'files and all' if options['with_backups'] else 'whose files stay there'}" if used else ""
    names = ", ".join(str(row) for row in rows)
    shown = one_line(f"{service.title} {names}{files}")
    if not command.is_agreed(options, f"Delete {shown}?", "add --yes to delete it"):
        return
    with transaction.atomic():
        service.remove([row for row in rows if row not in used])
        begun = removals.start_all(used, with_backups=options["with_backups"], by=caller()) if used else []
    facts = {"removed": [row.name for row in rows], "backups": goes.backups, "size": goes.size}
    facts |= {"repositories": goes.repositories, "records": [record.pk for record in begun]}
    done = f"being deleted; `{PROGRAM} backlog show {begun[0].pk}`" if begun else "deleted"
    command.answer(facts, f"{shown}: {done}")
