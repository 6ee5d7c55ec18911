"""An agent says "I am here": what it said is stored in one statement, then the records of its source are moved.

`sources/planning/arrivals.py` says what happens when its source is found silent at the same moment. Most check-ins move
nothing, and are that one statement. Where one is cut off in between, its agent's next one moves the records.
"""

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from jobs import decisions
from jobs.prepared import execute
from sources import planning
from sources.models import Source
from sources.planning.standings import STANDINGS

MAX_ADDRESSES = 20

LARGEST_SKEW_SECONDS = 1e9
"""Some thirty years: enough to say that a clock is wrong."""

NO_ADDRESS = ipaddress.IPv4Network("0.0.0.0/8")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


UNEVENTFUL = ("", "timer")
"""Reasons of a check-in that say nothing: its agent just announces itself again."""


class SourceGone(LookupError):
    """The source was deleted while its agent checked in."""


@dataclass(frozen=True)
class Facts:
    """What an agent says of its source. None: it did not say. `sent_at` (aware) is by its own clock."""

    hostname: str | None = None
    addresses: tuple[str, ...] = ()
    on_battery: bool | None = None
    metered: bool | None = None
    sent_at: datetime | None = None
    reason: str = ""
    version: str = ""


@dataclass(frozen=True)
class CheckedIn:
    """What became of a check-in: the source and its assignments as they are now, and how many records were moved."""

    source: Source
    moved: int
    now: datetime
    standings: list[planning.Standing]


def check_in(source: Source, facts: Facts, remote: str, now: datetime) -> CheckedIn:
    """Store what the agent of `source` said, log it, and move the records that waited for it.

    What an agent says every few minutes is a line of the log only if it is news, or moved something: a fleet of 5,000
    would fill the log within a day.

    `remote`: the address that the request came from. `now`: the database's clock. A paused source is written down, and
    nothing moves.

    Raises: SourceGone. ValueError for an address that is none.
    """
    known = _known(source)
    standings = _store(source, facts, remote, now)
    moved = planning.check_in(source, now, standings)
    if moved or facts.reason not in UNEVENTFUL or _known(source) != known:
        _log(source, facts, now)
    return CheckedIn(source, moved, now, planning.standings_of(source.pk) if moved else standings)


def enrolled(source: Source, hostname: str, now: datetime) -> None:
    """Store and log that an agent of `source` has got a token. It has not checked in yet."""
    if hostname:
        Source.objects.filter(pk=source.pk).update(hostname=hostname)
    subject = planning.subject_of_source(source.pk)
    text = f"an agent of {source.name} was enrolled"
    decisions.doing("enrolled", text, kind=planning.KIND, subject=subject, facts={"hostname": hostname}, now=now)


STORE = f"""
WITH stored AS (
    UPDATE sources_source
       SET checked_in_at = %(checked_in_at)s, hostname = %(hostname)s, addresses = %(addresses)s::text::jsonb,
           on_battery = %(on_battery)s, metered = %(metered)s, clock_skew = %(clock_skew)s
     WHERE id = %(source)s
    RETURNING id
), standing AS ({STANDINGS})
SELECT standing.*
  FROM stored
  LEFT JOIN standing ON TRUE
 ORDER BY standing.name
"""


def _store(source: Source, facts: Facts, remote: str, now: datetime) -> list[planning.Standing]:
    """Store the facts, also in `source`. What was not said is unknown from now on, but for the host name. Returns how
    its assignments stand.

    Raises: SourceGone, ValueError.
    """
    values = {
        "checked_in_at": now,
        "hostname": facts.hostname or source.hostname,
        "addresses": reachable_at(facts.addresses, remote),
        "on_battery": facts.on_battery,
        "metered": facts.metered,
        "clock_skew": clock_skew(facts.sent_at, now),
    }
    stored = {**values, "source": source.pk, "addresses": json.dumps(values["addresses"])}
    rows = execute(STORE, stored, prepare=True).fetchall()
    if not rows:
        raise SourceGone(source.name)
    for name, value in values.items():
        setattr(source, name, value)
    return [planning.Standing(*row) for row in rows if row[0] is not None]


def reachable_at(said: Iterable[str], remote: str) -> list[str]:
    """Where a source may be reached: the address its request came from, then those that its agent named.

    Each once, in its usual spelling, at most 20. Left out is what names no single other host: multicast, link-local,
    unspecified and reserved addresses; and loopback, unless the request came from there itself (or DEBUG is on). A
    loopback address that a request came from may be a proxy's, so it stands last.

    Raises: ValueError for text that is no IP address.
    """
    sender = _address(remote) if is_address(remote) else None
    named = [_address(text) for text in said]
    if sender is not None:
        named = [*named, sender] if sender.is_loopback else [sender, *named]
    loopback = settings.DEBUG or (sender is not None and sender.is_loopback)
    usable = [str(address) for address in named if _names_a_host(address, loopback=loopback)]
    return list(dict.fromkeys(usable))[:MAX_ADDRESSES]


def is_address(text: str) -> bool:
    """Whether `text` is an IP address."""
    try:
        _address(text)
    except ValueError:
        return False
    return True


def _address(text: str) -> Address:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:  # else ::ffff:127.0.0.1 would pass for an address of another host
            return address.ipv4_mapped
        return ipaddress.IPv6Address(int(address))  # an interface's name behind % means nothing here
    return address


def _names_a_host(address: Address, *, loopback: bool) -> bool:
    if address.is_loopback:
        return loopback
    if address.is_multicast or address.is_link_local or address.is_unspecified or address.is_reserved:
        return False
    return address not in NO_ADDRESS


def clock_skew(sent_at: datetime | None, now: datetime) -> float | None:
    """Seconds by which the sender's clock is ahead, bounded; None when it did not say. Nothing is decided by it."""
    if sent_at is None:
        return None
    ahead = (sent_at - now).total_seconds()
    return min(max(ahead, -LARGEST_SKEW_SECONDS), LARGEST_SKEW_SECONDS)


def _log(source: Source, facts: Facts, now: datetime) -> None:
    known = {**_known(source), "clock_skew": source.clock_skew, "reason": facts.reason, "version": facts.version}
    subject = planning.subject_of_source(source.pk)
    text = f"{source.name} checked in{_details(source, facts)}"
    decisions.doing("checked in", text, kind=planning.KIND, subject=subject, facts=known, now=now)


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
