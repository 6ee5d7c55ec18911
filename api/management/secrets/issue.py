from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model

from api import tokens
from api.management.secrets.tokens import facts_of
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import one_line
from external.durations import duration
from jobs.clock import database_clock
from jobs.conf import PROGRAM

HELP = (
    "Make a token with which a program uses the API as a user, within scopes: read (look), write (create, change, "
    "delete), operate (trigger, pause, retry, cancel …). It is printed once, and stored nowhere. Exit codes: 0; 2 for "
    "bad usage, or when the database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    needed: dict[str, Any] = {"required": True}
    parser.add_argument("--user", metavar="USER", help="in whose name it acts: an active member of staff", **needed)
    parser.add_argument("--name", metavar="NAME", help="what uses it, such as `grafana`", **needed)
    parser.add_argument(
        "--scope", "--scopes", metavar="SCOPES", help="some of read, write, operate, such as read,write", **needed
    )
    parser.add_argument(
        "--expires",
        type=duration(1),
        metavar="AFTER",
        help="such as 12h, 90d, 4w or 1y; without it the token does not expire",
    )


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    for option in ("user", "name", "scope"):
        if not options[option]:
            raise ValueError(f"--{option} is empty")
    now = database_clock()
    scopes = [scope.strip() for scope in options["scope"].split(",")]
    end = now + timedelta(seconds=options["expires"]) if options["expires"] else None
    issued = tokens.issue(_user(options["user"]), options["name"], scopes, end, now)
    command.answer(facts_of(issued.token, now) | {"token": issued.text}, issued.text)
    if not command.json:
        command.stderr.write(one_line(f"Token {issued.token.pk} of {issued.token.user}. It is not shown again."))


def _user(name: str) -> Any:
    """Raises: ValueError."""
    users: Any = get_user_model()._default_manager
    user = users.filter(username=name).first() if name.isprintable() else None
    if user is None:
        raise ValueError(f"there is no user {name!r}; `{PROGRAM} createsuperuser` makes one, the admin others")
    if not (user.is_active and user.is_staff):
        raise ValueError(f"{name!r} is not an active member of staff, so nothing could be done with its tokens")
    return user
