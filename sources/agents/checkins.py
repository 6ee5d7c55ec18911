"""Check-ins of agents: the facts that one reports are stored in one statement, then the records of its source are
moved.

`sources/planning/arrivals.py` explains the case in which its source is found silent at the same moment. Most check-ins
move nothing, and are that one statement. If one is cut off in between, its agent's next one moves the records.
"""

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS

from external.network import contact
from jobs import decisions
from jobs.prepared_statements import execute
from sources import planning
from sources.agents import tokens
from sources.domain import wake_hours
from sources.models import Source
from sources.planning.standings import STANDINGS

MAX_ADDRESSES = 20

LARGEST_SKEW_SECONDS = 1e9
"""Some thirty years: enough to show that a clock is wrong."""

NO_ADDRESS = ipaddress.IPv4Network("0.0.0.0/8")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


UNEVENTFUL = ("", "timer")
"""Reasons of a check-in without news: its agent just announces itself again."""


READ = (
    "id",
    "name",
    "paused_at",
    "retired_at",
    "paused_until",
    "paused_by_user",
    "checked_in_at",
    "on_battery",
    "metered",
    "clock_skew",
    "used_bytes",
)
"""The fields of a source that are read at a usual check-in, in the order of the model's."""


class SourceGone(LookupError):
    """The source was deleted while its agent checked in."""


@dataclass(frozen=True)
class Facts:
    """An agent's report of its source. None for a fact that it did not report. `sent_at` (aware) is by
    its own clock.
    """

    hostname: str | None = None
    addresses: tuple[str, ...] = ()
    on_battery: bool | None = None
    metered: bool | None = None
    used_bytes: int | None = None
    sent_at: datetime | None = None
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class CheckedIn:
    """The result of a check-in: the source and its assignments as they are now, and how many records were moved."""

    source: Source
    moved: int
    now: datetime
    standings: list[planning.Standing]


def check_in(source: Source, facts: Facts, remote: str, now: datetime) -> CheckedIn:
    """Store what the agent of `source` reports, log it, and move the records that waited for it.

    A report that an agent repeats every few minutes is a line of the log only if it is news, or moved something: a
    fleet of 5,000 would fill the log within a day.

    `remote`: the address that the request came from. `now`: the database's clock. The report of a paused source is
    stored, and nothing moves.

    Raises: SourceGone; ValueError for an invalid address.
    """
    known = _known(source)
    standings = _store(source, facts, remote, now)
    is_news = facts.reason not in UNEVENTFUL or _known(source) != known
    return _moved(source, facts, now, standings, is_news=is_news)


def _moved(
    source: Source, facts: Facts, now: datetime, standings: list[planning.Standing], *, is_news: bool = False
) -> CheckedIn:
    moved = planning.check_in(source, now, standings)
    if moved or is_news:
        _log(source, facts, now)
    return CheckedIn(source, moved, now, planning.standings_of(source.pk) if moved else standings)


# The token is found by the unique index of its digest. Two columns are written, neither of them indexed. The commit
# does not wait for the disk: a crash of the database loses only what agents repeat within minutes. Moved records are
# committed after that, and that commit does wait.
AS_USUAL = f"""
WITH stored AS (
    UPDATE sources_source s
       SET checked_in_at = statement_timestamp(),
           seen_hours = s.seen_hours | (1 << extract(hour FROM statement_timestamp() AT TIME ZONE 'UTC')::int),
           clock_skew = least(greatest(extract(epoch FROM %(sent_at)s::timestamptz - statement_timestamp()),
                                       - %(largest)s::float8), %(largest)s::float8)
      FROM sources_agenttoken t
     WHERE t.digest = %(digest)s
       AND t.revoked_at IS NULL
       AND t.used_at > statement_timestamp() - %(precision)s::interval
       AND t.used_at <= statement_timestamp()
       AND s.id = t.source_id
       AND s.addresses = %(addresses)s::text::jsonb
       AND coalesce(%(hostname)s, s.hostname) = s.hostname
       AND s.on_battery IS NOT DISTINCT FROM %(on_battery)s::boolean
       AND s.metered IS NOT DISTINCT FROM %(metered)s::boolean
    RETURNING s.{", s.".join(READ)}
), standing AS ({STANDINGS.replace("%(source)s", "(SELECT id FROM stored)")})
SELECT set_config('synchronous_commit', 'off', TRUE), stored.*, standing.*
  FROM stored
  LEFT JOIN standing ON TRUE
 ORDER BY standing.name
"""


def check_in_as_usual(token: str, facts: Facts, remote: str) -> CheckedIn | None:
    """`check_in` of an agent that has a valid `token` and reports the same as last time: one statement with its token.

    None if there is more to it, such as a first use, an address that is new, or a wrong token. Then nothing is written.
    """
    if facts.reason not in UNEVENTFUL or facts.sent_at is None:
        return None
    addresses = reachable_at(facts.addresses, remote)
    values = {
        "digest": tokens.digest_of(token),
        "precision": tokens.USED_AT_PRECISION,
        "hostname": facts.hostname,
        "addresses": json.dumps(addresses),
        "on_battery": facts.on_battery,
        "metered": facts.metered,
        "sent_at": facts.sent_at,
        "largest": LARGEST_SKEW_SECONDS,
    }
    rows = [row[1:] for row in execute(AS_USUAL, values, prepare=True).fetchall()]
    if not rows:
        return None
    source = Source.from_db(DEFAULT_DB_ALIAS, READ, rows[0][: len(READ)])
    source.addresses = addresses
    standings = [planning.Standing(*row[len(READ) :]) for row in rows if row[len(READ)] is not None]
    return _moved(source, facts, rows[0][READ.index("checked_in_at")], standings)


def enrolled(source: Source, hostname: str, now: datetime) -> None:
    """Store and log that an agent of `source` has got a token. It has not checked in yet."""
    if hostname:
        Source.objects.filter(pk=source.pk).update(hostname=hostname)
    subject = planning.subject_of_source(source.pk)
    text = f"an agent of {source.name} was enrolled"
    decisions.log("enrolled", text, kind=planning.KIND, subject=subject, facts={"hostname": hostname}, now=now)


STORE = f"""
WITH stored AS (
    UPDATE sources_source
       SET checked_in_at = %(checked_in_at)s, hostname = %(hostname)s, addresses = %(addresses)s::text::jsonb,
           on_battery = %(on_battery)s, metered = %(metered)s, clock_skew = %(clock_skew)s,
           used_bytes = %(used_bytes)s::bigint, seen_hours = seen_hours | %(seen_hours)s::int
     WHERE id = %(source)s
    RETURNING id
), standing AS ({STANDINGS})
SELECT standing.*
  FROM stored
  LEFT JOIN standing ON TRUE
 ORDER BY standing.name
"""


def _store(source: Source, facts: Facts, remote: str, now: datetime) -> list[planning.Standing]:
    """Store the facts, also in `source`. Facts that were not reported are unknown from now on, except the host name.
    Returns the standings of its assignments.

    Raises: SourceGone, ValueError.
    """
    values = {
        "checked_in_at": now,
        "hostname": facts.hostname or source.hostname,
        "addresses": reachable_at(facts.addresses, remote),
        "on_battery": facts.on_battery,
        "metered": facts.metered,
        "clock_skew": clock_skew(facts.sent_at, now),
        "used_bytes": source.used_bytes if facts.used_bytes is None else facts.used_bytes,
    }
    stored = {
        **values,
        "seen_hours": wake_hours.seen(now, now),
        "source": source.pk,
        "addresses": json.dumps(values["addresses"]),
    }
    rows = execute(STORE, stored, prepare=True).fetchall()
    if not rows:
        raise SourceGone(source.name)
    for name, value in values.items():
        setattr(source, name, value)
    return [planning.Standing(*row) for row in rows if row[0] is not None]


def reachable_at(reported: Iterable[str], remote: str) -> list[str]:
    """The addresses at which a source may be reached: the one its request came from, then those that its agent named.

    Each once, in its usual spelling, at most 20. Addresses that name no single other host are left out: multicast,
    link-local, unspecified and reserved ones; and loopback, unless the request came from there itself (or DEBUG is on).
    A loopback address that a request came from may be a proxy's, so it comes last.

    Raises: ValueError for text that is not an IP address.
    """
    sender = _address(remote) if contact.is_address(remote) else None
    named = [_address(text) for text in reported]
    if sender is not None:
        named = [*named, sender] if sender.is_loopback else [sender, *named]
    loopback = settings.DEBUG or (sender is not None and sender.is_loopback)
    hosts = (each for each in named if contact.names_a_host(each) and each not in NO_ADDRESS)
    usable = [str(address) for address in hosts if loopback or not address.is_loopback]
    return list(dict.fromkeys(usable))[:MAX_ADDRESSES]


def _address(text: str) -> Address:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:  # else ::ffff:127.0.0.1 would pass for an address of another host
            return address.ipv4_mapped
        return ipaddress.IPv6Address(int(address))  # an interface's name behind % means nothing here
    return address


def clock_skew(sent_at: datetime | None, now: datetime) -> float | None:
    """Seconds by which the sender's clock is ahead, bounded. None if it did not send its time. Nothing is decided by
    it.
    """
    if sent_at is None:
        return None
    ahead = (sent_at - now).total_seconds()
    return min(max(ahead, -LARGEST_SKEW_SECONDS), LARGEST_SKEW_SECONDS)


def _log(source: Source, facts: Facts, now: datetime) -> None:
    known = {**_known(source), "clock_skew": source.clock_skew, "reason": facts.reason, "version": facts.version}
    subject = planning.subject_of_source(source.pk)
    text = f"{source.name} checked in{_details(source, facts)}"
    decisions.log("checked in", text, kind=planning.KIND, subject=subject, facts=known, now=now)


def _known(source: Source) -> dict[str, Any]:
    return {"addresses": source.addresses, "on_battery": source.on_battery, "metered": source.metered}


def _details(source: Source, facts: Facts) -> str:
    details = (
        f" from {source.addresses[0]}" if source.addresses else "",
        ", on battery" if source.on_battery else "",
        ", on a metered connection" if source.metered else "",
        f" (reason: {facts.reason})" if facts.reason else "",
    )
    return "".join(details)
