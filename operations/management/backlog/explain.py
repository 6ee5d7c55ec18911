from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import one_line
from external.formatting import moment
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.models import BacklogRecord
from operations.backlog.arguments import is_id
from operations.backlog.reasons import explain
from operations.backlog.rendering import reasons_view

HELP = (
    "Show every reason why a record does not run now, in the order in which they would have to end; "
    "docs/reasons.md has the codes. Exit codes: 0; 1 when there is no such record; 2 for bad usage."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="of a record; several may be given")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    for text in options["ids"]:
        if not is_id(text):
            raise ValueError(f"{text!r} is not the id of a record; `{PROGRAM} backlog list` shows some")
    command.one_by_one(options["ids"], lambda text: _explain(command, int(text)))


def _explain(command: TerminalCommand, record_id: int) -> None:
    related = BacklogRecord.objects.select_related("retry_policy", "origin", "leased_by")
    record = related.filter(pk=record_id).first()
    if record is None:
        missing = f"there is no record {record_id}; `{PROGRAM} backlog list` shows some"
        raise CommandError(missing, returncode=1)
    found = explain(record, database_clock())
    command.answer(
        {"id": record.pk} | found.as_facts, one_line(f"{record} at {moment(found.at)} UTC"), *reasons_view(found)
    )
