from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from api import tokens
from api.management.secrets.tokens import facts_of
from api.models import ApiToken
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import one_line
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.backlog.arguments import LARGEST_ID, number

HELP = (
    "End a token of the API: it is not accepted any more. Exit codes: 0; 1 when it was revoked before; 2 for bad "
    "usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=number("id of a token", LARGEST_ID), metavar="ID", help="as `tokens` shows")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    token, now = ApiToken.objects.select_related("user").filter(pk=options["id"]).first(), database_clock()
    if token is None:
        raise ValueError(f"there is no token {options['id']}; `{PROGRAM} secrets tokens` lists them")
    if not tokens.revoke(token.pk, now):
        raise CommandError(f"token {token.pk} was revoked before: nothing was changed", returncode=1)
    token.refresh_from_db()
    command.answer(facts_of(token, now), one_line(f"{token}: it is not accepted any more"))
