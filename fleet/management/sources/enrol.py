from argparse import ArgumentParser, ArgumentTypeError
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import CommandError

from declarations.surfaces.commands.base import TerminalCommand
from declarations.unknown import named
from external.durations import duration, span
from jobs.clock import database_clock
from sources.agents import tokens
from sources.models import Source

LONGEST_VALID_SECONDS = 30 * 86_400
URL_TO_FILL_IN = "https://HOST/"


HELP = (
    "Make a one-time code with which the agent of a source gets its token, and print the command for the source's "
    "own machine. With --revoke, end all tokens and open codes of the source instead. The exit code is 2 for bad "
    "input."
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", metavar="NAME", help="of the source")
    parser.add_argument(
        "--valid-for",
        type=duration(1, LONGEST_VALID_SECONDS),
        default=tokens.VALID_FOR_SECONDS,
        metavar="DURATION",
        help=f"how long the code can be used, such as 15m or 7d (default: {span(tokens.VALID_FOR_SECONDS)})",
    )
    parser.add_argument(
        "--url", type=_url, default=_own_url(), help="where agents reach this server (default: %(default)s)"
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--token", action="store_true", help="print a token instead of a code")
    instead.add_argument("--revoke", action="store_true", help="end all tokens and open codes of the source")


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    source = named(Source.objects, options["source"])
    try:
        facts, text = _answer(source, options)
    except tokens.CredentialRefused as error:
        raise CommandError(f"the source {source.name!r} was deleted in the meantime", returncode=2) from error
    command.answer(facts, text)


def _answer(source: Source, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The facts, and the same as text."""
    facts: dict[str, Any] = {"source": source.name}
    if options["revoke"]:
        ended = tokens.revoke(source)
        return facts | {"revoked": ended}, f"{source.name}: {ended} token(s) ended, and any open code"
    if options["token"]:
        token = tokens.issue(source)
        return facts | {"token": token}, token
    now, valid_for = database_clock(), options["valid_for"]
    code = tokens.make_code(source, valid_for, now)
    until = tokens.expires_at(valid_for, now)
    command = tokens.enrol_command(options["url"], code)
    text = (
        f"code for {source.name}: {code}\ngood once, until {until:%Y-%m-%d %H:%M:%S} UTC. "
        f"On its machine, with a copy of {settings.AGENT}:\n\n  {command}"
    )
    return facts | {"code": code, "expires_at": until.isoformat(), "command": command}, text


def _url(text: str) -> str:
    """The address as it was given. Raises: ArgumentTypeError for one that agents cannot call."""
    try:
        named = urlsplit(text)
        is_one = named.scheme in ("http", "https") and named.hostname and named.port != 0
        is_one = is_one and not named.query and not named.fragment
    except ValueError:
        is_one = False
    if not is_one or not text.isprintable() or " " in text:
        raise ArgumentTypeError(
            f"{text!r:.100} is not the address of a web server; write it as https://backups.example.org/"
        )
    return text


def _own_url() -> str:
    return f"{settings.CSRF_TRUSTED_ORIGINS[0]}/" if settings.CSRF_TRUSTED_ORIGINS else URL_TO_FILL_IN
