import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from jobs.clock import database_clock
from jobs.durations import span
from jobs.management.arguments import duration
from sources.agents import tokens
from sources.management.names import named
from sources.models import Source

LONGEST_VALID_SECONDS = 30 * 86_400
URL_TO_FILL_IN = "https://HOST/"


class Command(BaseCommand):
    help = (
        "Make a one-time code with which the agent of a source gets its token, and print the command for the source's "
        "own machine. With --revoke, end all tokens and open codes of the source instead. The exit code is 2 for bad "
        "input."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", metavar="SOURCE", help="name of the source")
        parser.add_argument(
            "--valid-for",
            type=duration(1, LONGEST_VALID_SECONDS),
            default=tokens.VALID_FOR_SECONDS,
            metavar="DURATION",
            help=f"how long the code can be used, as 15m or 7d (default: {span(tokens.VALID_FOR_SECONDS)})",
        )
        parser.add_argument("--url", default=_own_url(), help="where agents reach this server (default: %(default)s)")
        parser.add_argument("--json", action="store_true", help="print JSON")
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--token", action="store_true", help="print a token instead of a code")
        instead.add_argument("--revoke", action="store_true", help="end all tokens and open codes of the source")

    def handle(self, *args: Any, **options: Any) -> None:
        source = named(Source.objects, options["source"], "source")
        try:
            self.stdout.write(_answer(source, options))
        except tokens.Refused as error:
            raise CommandError(f"the source {source.name!r} was deleted meanwhile", returncode=2) from error


def _answer(source: Source, options: dict[str, Any]) -> str:
    if options["revoke"]:
        answer, text = _revoke(source)
    elif options["token"]:
        answer, text = _token(source)
    else:
        answer, text = _code(source, options["valid_for"], options["url"])
    return json.dumps(answer) if options["json"] else text


def _own_url() -> str:
    return f"{settings.CSRF_TRUSTED_ORIGINS[0]}/" if settings.CSRF_TRUSTED_ORIGINS else URL_TO_FILL_IN


def _revoke(source: Source) -> tuple[dict[str, Any], str]:
    ended = tokens.revoke(source)
    return {"source": source.name, "revoked": ended}, f"{source.name}: {ended} token(s) ended, and any open code"


def _token(source: Source) -> tuple[dict[str, Any], str]:
    token = tokens.issue(source)
    return {"source": source.name, "token": token}, token


def _code(source: Source, valid_for: float, url: str) -> tuple[dict[str, Any], str]:
    now = database_clock()
    code = tokens.make_code(source, valid_for, now)
    until = tokens.expires_at(valid_for, now)
    command = tokens.enrol_command(url, code)
    answer = {"source": source.name, "code": code, "expires_at": until.isoformat(), "command": command}
    text = (
        f"code for {source.name}: {code}\ngood once, until {until:%Y-%m-%d %H:%M:%S} UTC. "
        f"On its machine, with a copy of {settings.AGENT}:\n\n"
    )
    return answer, f"{text}  {command}"
