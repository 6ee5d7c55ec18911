from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from api import tokens
from api.models import ApiToken
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns
from external.formatting import moment
from jobs.clock import database_clock
from jobs.conf import PROGRAM

ISSUE = f"`{PROGRAM} secrets issue --user U --name N --scope read`"
COLUMNS = columns("id>", "name", "user", "scopes", "state", "expires (UTC)", "last used (UTC)")
HELP = (
    "List the tokens with which programs use the API. A token acts as its user, within its scopes: read (look), write "
    f"(create, change, delete), operate (trigger, pause, retry, cancel …). {ISSUE} makes one. Exit codes: 0; 2 when "
    "the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    now = database_clock()
    found = [facts_of(token, now) for token in ApiToken.objects.select_related("user")]
    command.list_out(found, COLUMNS, _row, f"There are no tokens. {ISSUE} makes one.")


def facts_of(token: ApiToken, now: datetime) -> dict[str, Any]:
    """A token by name, without itself; instants are aware."""
    names = ("id", "name", "scopes", "created_at", "expires_at", "revoked_at", "used_at")
    state = tokens.state_of(token, now)
    return {name: getattr(token, name) for name in names} | {"user": token.user.get_username(), "state": state}


def _row(facts: dict[str, Any]) -> tuple[Any, ...]:
    ends, used = (moment(facts[name]) or "never" for name in ("expires_at", "used_at"))
    return facts["id"], facts["name"], facts["user"], ", ".join(facts["scopes"]), facts["state"], ends, used
