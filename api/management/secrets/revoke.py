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
    "End tokens of the API: they are not accepted any more. Exit codes: 0; 1 when one was revoked before; 2 for bad "
    "usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    an_id = number("id of a token", LARGEST_ID)
    parser.add_argument(
        "ids", type=an_id, nargs="+", metavar="ID", help="as `secrets tokens` lists it; several may be given"
    )


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    command.one_by_one(options["ids"], lambda token_id: _revoke(command, token_id))


def _revoke(command: TerminalCommand, token_id: int) -> None:
    token, now = ApiToken.objects.select_related("user").filter(pk=token_id).first(), database_clock()
    if token is None:
        raise ValueError(f"there is no token {token_id}; `{PROGRAM} secrets tokens` lists them")
    if not tokens.revoke(token.pk, now):
        raise CommandError(f"token {token.pk} was revoked before: nothing was changed", returncode=1)
    token.refresh_from_db()
    command.answer(facts_of(token, now), one_line(f"{token}: it is not accepted any more"))
