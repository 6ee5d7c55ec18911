from argparse import ArgumentParser
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError

from api import tokens
from api.models import ApiToken
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import Column, one_line
from external.durations import duration
from external.formatting import moment
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.backlog.arguments import LARGEST_ID

ISSUE = f"`{PROGRAM} api_tokens issue --user U --name N --scope read`"
COLUMNS = ("id", "name", "user", "scopes", "state", "expires (UTC)", "last used (UTC)")


class Command(VerbCommand):
    help = (
        "Show the tokens with which programs use the API, make one, and end one. A token acts as its user, within its "
        "scopes: read (look), write (create, change, delete), operate (trigger, pause, retry, cancel …). It is printed "
        "once, and stored nowhere. Exit codes: 0; 1 when the token was revoked before; 2 for bad usage, or when the "
        "database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = ("list", "issue", "revoke")
        parser.add_argument("verb", nargs="?", choices=verbs, default="list", help="(%(default)s)")
        parser.add_argument("id", nargs="?", metavar="ID", help="of the token to revoke")
        parser.add_argument("--user", metavar="USER", help="in whose name it acts: an active member of staff")
        parser.add_argument("--name", metavar="NAME", help="what uses it, as `grafana`")
        parser.add_argument("--scope", "--scopes", metavar="SCOPES", help="some of read, write, operate, as read,write")
        parser.add_argument(
            "--expires", type=duration(1), metavar="AFTER", help="as 12h, 90d, 4w or 1y; without: it does not expire"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")

    def _list(self, options: dict[str, Any]) -> None:
        now = database_clock()
        found = [_facts(token, now) for token in ApiToken.objects.select_related("user")]
        columns = [Column(name, number=name == "id") for name in COLUMNS]
        self.list_out(found, columns, _row, f"There are no tokens. {ISSUE} makes one.")

    def _issue(self, options: dict[str, Any]) -> None:
        if options["id"]:
            raise ValueError("`issue` takes no ID: name the token with --name")
        for option in ("user", "name", "scope"):
            if not options[option]:
                raise ValueError(f"--{option} is missing: {ISSUE}")
        now = database_clock()
        scopes = [scope.strip() for scope in options["scope"].split(",")]
        end = now + timedelta(seconds=options["expires"]) if options["expires"] else None
        issued = tokens.issue(_user(options["user"]), options["name"], scopes, end, now)
        self.answer(_facts(issued.token, now) | {"token": issued.text}, issued.text)
        if not self.json:
            self.stderr.write(one_line(f"Token {issued.token.pk} of {issued.token.user}. It is not shown again."))

    def _revoke(self, options: dict[str, Any]) -> None:
        given = options["id"] or ""
        if not (given.isascii() and given.isdecimal() and 0 < len(given) < 20 and int(given) <= LARGEST_ID):
            raise ValueError(f"say which: `{PROGRAM} api_tokens revoke ID`, as `{PROGRAM} api_tokens` shows")
        token, now = ApiToken.objects.select_related("user").filter(pk=int(given)).first(), database_clock()
        if token is None:
            raise ValueError(f"there is no token {given}; `{PROGRAM} api_tokens` shows those there are")
        if not tokens.revoke(token.pk, now):
            raise CommandError(f"token {given} was revoked before: nothing was changed", returncode=1)
        token.refresh_from_db()
        self.answer(_facts(token, now), one_line(f"{token}: it is not accepted any more"))


def _user(name: str) -> Any:
    """Raises: ValueError."""
    users: Any = get_user_model()._default_manager
    user = users.filter(username=name).first() if name.isprintable() else None
    if user is None:
        raise ValueError(f"there is no user {name!r}; `{PROGRAM} createsuperuser` makes one, the admin others")
    if not (user.is_active and user.is_staff):
        raise ValueError(f"{name!r} is no active member of staff, so nothing could be done with its tokens")
    return user


def _facts(token: ApiToken, now: datetime) -> dict[str, Any]:
    """A token by name, without itself; instants are aware."""
    names = ("id", "name", "scopes", "created_at", "expires_at", "revoked_at", "used_at")
    state = tokens.state_of(token, now)
    return {name: getattr(token, name) for name in names} | {"user": token.user.get_username(), "state": state}


def _row(facts: dict[str, Any]) -> tuple[Any, ...]:
    ends, used = (moment(facts[name]) or "never" for name in ("expires_at", "used_at"))
    return facts["id"], facts["name"], facts["user"], ", ".join(facts["scopes"]), facts["state"], ends, used
