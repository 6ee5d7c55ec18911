import json
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import F
from django.db.utils import Error

from jobs import breakers
from jobs.breakers import verbs
from jobs.clock import database_clock
from jobs.durations import span
from jobs.formatting import moment
from jobs.models import Breaker
from operations.backlog.rendering import plain
from operations.management.base import unanswered

VERBS: dict[str, tuple[Callable[..., int], str]] = {
    "close": (verbs.close, "it is closed: what waits for it goes on at the next tick"),
    "probe": (verbs.probe_now, "a trial is let through at the next tick, unless one is under way"),
}


class Command(BaseCommand):
    help = (
        "Show the circuit breakers: a repository that fails for everybody is held back, and tried every now and then. "
        "Alone: those there are, open ones first. close KEY: let everything that waits for it go on. probe KEY: let "
        "one record through as a trial now. Exit codes: 0; 1 when that breaker is not open; 2 for bad usage, or when "
        "the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("verb", nargs="?", choices=sorted(VERBS), help="what to do with one of them")
        parser.add_argument("key", nargs="?", metavar="KEY", help="which one, as repository:3")
        parser.add_argument("--json", action="store_true", help="print a list of {key, title, state, waiting, …}")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["verb"] and not options["key"]:
            raise CommandError(f"say which: `manage.py breakers {options['verb']} KEY`; {_known()}", returncode=2)
        try:
            self._do(options)
        except Error as error:
            raise unanswered(error) from error

    def _do(self, options: dict[str, Any]) -> None:
        if options["verb"]:
            self._change(options["verb"], options["key"], options["json"])
            return
        found = [_facts(breaker) for breaker in Breaker.objects.order_by(F("opened_at").desc(nulls_last=True), "key")]
        if options["json"]:
            self.stdout.write(json.dumps(found, cls=DjangoJSONEncoder, ensure_ascii=False))
        elif not found:
            self.stdout.write("Nothing that a breaker guards has ever failed.")
        for facts in [] if options["json"] else found:
            self.stdout.write(_describe(facts))

    def _change(self, verb: str, key: str, as_json: bool) -> None:
        breaker = Breaker.objects.filter(key=key).first() if "\0" not in key else None
        if breaker is None:
            raise CommandError(f"there is no breaker {key!r}; {_known()}", returncode=2)
        do, told = VERBS[verb]
        if not do([breaker.pk], by="a person at the command line"):
            raise CommandError(f"{breaker} ({key}) is not open: nothing was changed", returncode=1)
        breaker.refresh_from_db()
        facts = json.dumps(_facts(breaker), cls=DjangoJSONEncoder, ensure_ascii=False)
        self.stdout.write(facts if as_json else f"{plain(breaker).plain} ({key}): {told}")


def _known() -> str:
    keys = list(Breaker.objects.order_by("key").values_list("key", flat=True)[:20])
    return f"there are {', '.join(keys)}" if keys else "there are none yet"


def _facts(breaker: Breaker) -> dict[str, Any]:
    """One breaker by name; instants are aware, `open_for` is seconds or null."""
    open_for = (database_clock() - breaker.opened_at).total_seconds() if breaker.opened_at else None
    return {
        "key": breaker.key,
        "title": breaker.title,
        "state": breakers.state_of(breaker),
        "failures": breaker.failures,
        "opened_at": breaker.opened_at,
        "open_for": open_for,
        "trials": breaker.trials,
        "trial": breaker.trial_id,
        "probe_at": breaker.probe_at,
        "waiting": breakers.held_by(breaker),
        "last_failure_at": breaker.last_failure_at,
        "last_error": breaker.last_error,
    }


def _describe(facts: dict[str, Any]) -> str:
    who = f"{plain(facts['key']).plain}  {plain(facts['title']).plain}: {facts['state']}"
    said = plain((facts["last_error"].splitlines() or [""])[0]).plain
    if facts["opened_at"] is None:
        return f"{who}, {facts['failures']} failures in a row" if facts["failures"] else who
    trial = (
        f"record {facts['trial']} is on trial" if facts["trial"] else f"next trial at {moment(facts['probe_at'])} UTC"
    )
    return (
        f"{who} for {span(facts['open_for'])}, {facts['failures']} failures in a row, {facts['waiting']:,} records "
        f"wait, {facts['trials']} trials in vain, {trial}\n    {said}"
    )
