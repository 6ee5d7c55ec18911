"""The keys of settings.JOBS, and the values of all but its queues; and what deliveries read in the settings."""

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from delivery import addresses
from jobs import conf
from operations.checks.messages import error, is_number, meant, warning

KEYS = (
    "QUEUES", "LEASE_SECONDS", "WAKE", "KEEP_FINISHED_DAYS", "CONSIDERING", "KEEP_LOG_DAYS", "SWEEP_MAX_RECORDS",
    "BREAKER_AFTER", "BREAKER_PROBE_SECONDS", "BREAKER_LONGEST_SECONDS",
)  # fmt: skip
MAX_KEEP_DAYS = 36_500
"""A hundred years. Much more, and the instant before which to prune is none that a calendar has."""
MAX_SWEEP = 1_000_000
"""Records, as `jobs.retries.sweeps.LARGEST`: a sweep is one transaction."""
MAX_BREAKER_SECONDS = 86_400
"""A day: what is tried less often than that nobody waits for."""


def unknown_keys(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    """Those that nobody reads. `found`: settings.JOBS."""
    for key in found:
        if key not in KEYS:
            yield error("E002", f"JOBS has the unknown key {key!r}, which does nothing", meant(key, KEYS))


def wrong_values(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    """What is out of range, or of another type. `found`: settings.JOBS."""
    lease = found.get("LEASE_SECONDS", 60)
    if not is_number(lease) or lease < 1:
        yield error("E006", f"JOBS['LEASE_SECONDS'] is {lease!r}", "give a number of seconds, 1 or more; 60 is usual")
    elif conf.ending_seconds() < 1:
        what = f"JOBS['LEASE_SECONDS'] is {lease:g}: what is stopped is killed {conf.ending_seconds():.2g} s later"
        yield warning("W004", what, "a program needs a second or more to end in good order: 6 or more; 60 is usual")
    wake = found.get("WAKE", "listen")
    if wake not in ("listen", "poll"):
        yield error(
            "E007", f"JOBS['WAKE'] is {wake!r}", "'listen', or 'poll' behind a pooler of transactions (PgBouncer)"
        )
    for name, usual in (("KEEP_FINISHED_DAYS", 90), ("KEEP_LOG_DAYS", 14)):
        days = found.get(name, usual)
        if not is_number(days) or not 0 < days <= MAX_KEEP_DAYS:
            yield error("E008", f"JOBS[{name!r}] is {days!r}", f"give days, above 0 and at most {MAX_KEEP_DAYS:,}")
    if not isinstance(considering := found.get("CONSIDERING", False), bool):
        yield error("E014", f"JOBS['CONSIDERING'] is {considering!r}", "True or False")
    yield from _retrying(found)


def wrong_addresses(found: Any) -> Iterator[CheckMessage]:
    """What deliveries cannot read. `found`: settings.CALLBACKS_ALLOWED."""
    try:
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ImproperlyConfigured(f"CALLBACKS_ALLOWED is {found!r:.80}")
        addresses.allowed()
    except ImproperlyConfigured as refused:
        yield error("E019", str(refused), "a list of networks and hosts, as ['10.1.0.0/16', 'intranet.example']")


def _retrying(found: dict[Any, Any]) -> Iterator[CheckMessage]:
    for number, name, usual in (("E015", "SWEEP_MAX_RECORDS", 10_000), ("E016", "BREAKER_AFTER", 3)):
        count = found.get(name, usual)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_SWEEP:
            do = f"give a whole number, 1 to {MAX_SWEEP:,}; {usual:,} is usual"
            yield error(number, f"JOBS[{name!r}] is {count!r}", do)
    probe, longest = found.get("BREAKER_PROBE_SECONDS", 60), found.get("BREAKER_LONGEST_SECONDS", 900)
    for name, seconds, usual in (("BREAKER_PROBE_SECONDS", probe, 60), ("BREAKER_LONGEST_SECONDS", longest, 900)):
        if not is_number(seconds) or not 1 <= seconds <= MAX_BREAKER_SECONDS:
            do = f"give a number of seconds, 1 to {MAX_BREAKER_SECONDS:,}; {usual} is usual"
            yield error("E017", f"JOBS[{name!r}] is {seconds!r}", do)
            return
    if longest < probe:
        what = f"JOBS['BREAKER_LONGEST_SECONDS'] is {longest}, below JOBS['BREAKER_PROBE_SECONDS'], {probe}"
        yield error("E018", what, "give the longest time between two trials the larger number; 900 and 60 are usual")
