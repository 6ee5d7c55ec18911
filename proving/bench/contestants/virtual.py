"""This project's backlog in virtual time: the statements and what decides are its own, the units are imagined.

Commands that begin from the presets of the retry policies, in an empty database; see `proving/bench/virtual.py`.
"""

from typing import Any

from proving.bench.contestants.ours import Ours, set_up

PRESETS = (
    "every 5 minutes", "exponential, full jitter", "sidekiq, 25 retries", "buckets, 15 s", "fibonacci, a day at most",
    "progressive", "phased",
)  # fmt: skip
"""Retry policies that an installation begins with: one of each algorithm, with limits for every day."""


class Virtual(Ours):
    family = "virtual"

    def __init__(self) -> None:
        super().__init__("virtual", is_async=True)

    def meet_poison(self, url: str, preset: str, load: dict[str, Any]) -> list[dict[str, Any]]:
        """Runs of `proving/bench/fleets/poison.py` without and beside the poison. Returns the figures of both."""
        self._begin(url)
        from jobs.models import RetryPolicy
        from proving.bench.fleets import poison

        policy = RetryPolicy.objects.get(name=preset)
        return [figures._asdict() for figures in poison.compare(poison.Load(**load), policy)]

    def meet_outage(self, url: str, preset: str, outage: dict[str, Any]) -> dict[str, Any]:
        """One run of `proving/bench/fleets/outage.py`. Returns what it tells."""
        self._begin(url)
        from jobs.models import RetryPolicy
        from proving.bench.fleets import outage as fleet

        return fleet.run(fleet.Outage(**outage), RetryPolicy.objects.get(name=preset))._asdict()

    def _begin(self, url: str) -> None:
        """No crash is to be survived here, and no log tells what is done to thousands of records a second."""
        set_up(url)
        import logging

        from django.db import connection

        from jobs.prepared_statements import prepare_in_this_thread

        logging.getLogger("jobs").setLevel(logging.ERROR)
        prepare_in_this_thread()
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
