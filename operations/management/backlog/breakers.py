from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError
from django.db.models import F

from declarations.surfaces.commands.base import TerminalCommand, caller
from declarations.surfaces.terminal import columns, one_line
from declarations.unknown import named
from external.durations import span
from external.formatting import moment
from jobs import breakers
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.models import Breaker

COLUMNS = columns(
    "key", "breaker", "state", "open for>", "failures>", "records wait>", "failed trials>", "next trial (UTC)",
    "last error",
)  # fmt: skip


HELP = (
    "List the circuit breakers, open ones first: a repository that fails for all sources is held back, and tried now "
    f"and then. `{PROGRAM} backlog close-breaker` and `probe-breaker` do not wait for that. Exit codes: 0; 2 when the "
    "database does not answer."
)


def add_arguments(parser: ArgumentParser) -> None:
    pass


def run(command: TerminalCommand, options: dict[str, Any]) -> None:
    found = [_facts(breaker) for breaker in Breaker.objects.order_by(F("opened_at").desc(nulls_last=True), "key")]
    command.list_out(found, COLUMNS, _row, "Nothing that a breaker guards has ever failed.")


def add_keys(parser: ArgumentParser) -> None:
    """Add the arguments that select breakers."""
    parser.add_argument("keys", nargs="+", metavar="KEY", help="such as repository:3")


def change_each(command: TerminalCommand, options: dict[str, Any], change: Callable[..., int], done: str) -> None:
    """Change each named breaker, and print it. Raises: CommandError with code 1 if one is not open."""
    idle = []
    for breaker in [named(Breaker.objects, key, "key") for key in dict.fromkeys(options["keys"])]:
        if not change([breaker.pk], by=caller()):
            idle.append(f"{breaker} ({breaker.key})")
            continue
        breaker.refresh_from_db()
        command.answer(_facts(breaker), f"{one_line(breaker)} ({breaker.key}): {done}")
    if idle:
        raise CommandError(f"not open, and left as it is: {', '.join(idle)}", returncode=1)


def _facts(breaker: Breaker) -> dict[str, Any]:
    """One breaker by name; instants are aware, `open_for` is seconds or null."""
    names = ("key", "title", "failures", "opened_at", "trials", "probe_at", "last_failure_at", "last_error")
    return {name: getattr(breaker, name) for name in names} | {
        "state": breakers.state_of(breaker),
        "open_for": (database_clock() - breaker.opened_at).total_seconds() if breaker.opened_at else None,
        "trial": breaker.trial_id,
        "waiting": breakers.held_by(breaker),
    }


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    trial = f"record {facts['trial']}" if facts["trial"] else moment(facts["probe_at"])
    return (
        facts["key"], facts["title"], facts["state"], span(facts["open_for"]), facts["failures"],
        f"{facts['waiting']:,}", facts["trials"] or "", trial, (facts["last_error"].splitlines() or [""])[0],
    )  # fmt: skip
