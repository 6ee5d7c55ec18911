from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError
from django.db.models import F

from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns, one_line
from declarations.unknown import named, names_of, there_are
from external.durations import span
from external.formatting import moment
from jobs import breakers
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from jobs.models import Breaker

COLUMNS = columns(
    "key", "breaker", "state", "open for>", "failures>", "records wait>", "failed trials>", "next trial (UTC)",
    "last error",
)  # fmt: skip


class Command(VerbCommand):
    help = (
        "Show the circuit breakers: a repository that fails for all sources is held back, and tried now and then. "
        "Alone: those there are, open ones first. close KEY: let everything that waits for it go on. probe KEY: let "
        "one record through as a trial now. Exit codes: 0; 1 when that breaker is not open; 2 for bad usage, or when "
        "the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", nargs="?", choices=("close", "probe"), help="what to do with one of them")
        parser.add_argument("key", nargs="?", metavar="KEY", help="which one, as repository:3")
        parser.add_argument("--json", action="store_true", help="print a list of {key, title, state, waiting, …}")

    def _list(self, options: dict[str, Any]) -> None:
        found = [_facts(breaker) for breaker in Breaker.objects.order_by(F("opened_at").desc(nulls_last=True), "key")]
        empty = "Nothing that a breaker guards has ever failed."
        self.list_out(found, COLUMNS, _row, empty)

    def _close(self, options: dict[str, Any]) -> None:
        self._change(options, verbs.close, "it is closed: what waits for it goes on at the next tick")

    def _probe(self, options: dict[str, Any]) -> None:
        self._change(options, verbs.probe_now, "a trial is let through at the next tick, unless one is under way")

    def _change(self, options: dict[str, Any], change: Callable[..., int], done: str) -> None:
        key = options["key"]
        if not key:
            known = there_are(names_of(Breaker.objects.all(), "key"))
            raise ValueError(f"say which: `{PROGRAM} breakers {options['verb']} KEY`; {known}")
        breaker = named(Breaker.objects, key, "key")
        if not change([breaker.pk], by="a person at the command line"):
            raise CommandError(f"{breaker} ({key}) is not open: nothing was changed", returncode=1)
        breaker.refresh_from_db()
        self.answer(_facts(breaker), f"{one_line(breaker)} ({key}): {done}")


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
