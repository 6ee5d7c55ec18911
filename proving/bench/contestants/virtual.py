"""This project's backlog in virtual time: statements and decisions are real, the execution units are imagined.

The commands begin with the presets of the retry policies, in an empty database; see `proving/bench/virtual.py`.
"""

from typing import Any

from proving.bench.contestants.ours import Ours, set_up

PRESETS = (
    "every 5 minutes", "exponential, full jitter", "sidekiq, 25 retries", "buckets, 15 s", "fibonacci, a day at most",
    "progressive", "phased",
)  # fmt: skip
"""Retry policies that an installation begins with: one of each algorithm, with everyday limits."""


class Virtual(Ours):
    family = "virtual"

    def __init__(self) -> None:
        super().__init__("virtual", is_async=True)

    def meet_poison(self, url: str, preset: str, load: dict[str, Any]) -> list[dict[str, Any]]:
        """Run `proving/bench/fleets/poison.py` without and with the poison. Returns the figures of both."""
        self._begin(url)
        from jobs.models import RetryPolicy
        from proving.bench.fleets import poison

        policy = RetryPolicy.objects.get(name=preset)
        return [figures._asdict() for figures in poison.compare(poison.Load(**load), policy)]

    def meet_outage(self, url: str, preset: str, outage: dict[str, Any]) -> dict[str, Any]:
        """Run `proving/bench/fleets/outage.py` once. Returns its figures."""
        self._begin(url)
        from jobs.models import RetryPolicy
        from proving.bench.fleets import outage as fleet

        return fleet.run(fleet.Outage(**outage), RetryPolicy.objects.get(name=preset))._asdict()

    def _begin(self, url: str) -> None:
        """Set up Django without durability, since no crash has to be survived, and without logs of thousands of
        records a second."""
        set_up(url)
        import logging

        from django.db import connection

        from jobs.prepared_statements import prepare_in_this_thread

        logging.getLogger("jobs").setLevel(logging.ERROR)
        prepare_in_this_thread()
        with connection.cursor() as cursor:
            cursor.execute("SET synchronous_commit = off")
