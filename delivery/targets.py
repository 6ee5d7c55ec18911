"""Targets of records: endpoints with their headers and secrets, and the breakers of their hosts.

The database is asked once for many records, and the answer kept for FRESH_SECONDS: an edit (a URL, a secret that is
rotated or retires, an endpoint that is removed) takes effect within that time and the duration of a query. So does a
breaker that another worker's failures open. An open breaker is read again for each record, so that one that was let
through as a trial is not held back.

The endpoint's present URL counts, so that a wrong one can be corrected while records wait for their retry, and no
secret of a new URL goes to an old one. A record that names no endpoint goes to the URL in its payload, unsigned.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connection
from django.utils import timezone
from yarl import URL

from delivery import signing
from delivery.addresses import AddressRefused, Place, reachable
from delivery.events import QUEUE
from delivery.models import Endpoint, EndpointKind
from jobs import breakers
from jobs.clock import boot_seconds
from jobs.models import Breaker
from jobs.outcomes import BreakerTarget, ClaimedRecord, Failed, Outcome
from jobs.worker.database_threads import ask_database
from sealing.encryption import Unsealable, unseal

FRESH_SECONDS = 1.0
MOST_KEPT = 10_000
"""The most targets. Beyond this number all are forgotten, and looked up again as they are needed."""

NOT_TO_BE_SET = frozenset(
    {
        # the HTTP client's own: with others a receiver would read another message than was sent
        *("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding"),
        *("accept-encoding", "upgrade"),
        # our own: the signed headers, and those that identify an event
        *("content-type", "idempotency-key", signing.ID, signing.TIMESTAMP, signing.SIGNATURE),
    }
)
"""Headers that an endpoint cannot set, in lower case. Authorization has its own field, and is sealed there."""


class TargetKey(NamedTuple):
    """The key of a target: the kind of the record, and its endpoint's id or else its URL."""

    kind: str
    endpoint_id: int | None
    url: str = ""


def key_of(record: ClaimedRecord) -> TargetKey:
    endpoint, url = record.payload.get("endpoint"), record.payload.get("url")
    return (
        TargetKey(record.kind, endpoint) if isinstance(endpoint, int) else TargetKey(record.kind, None, str(url or ""))
    )


@dataclass
class Host:
    """The breaker of an origin as it was read, and the results in this process since."""

    guarded: BreakerTarget
    is_open: bool = False
    is_doubted: bool = False
    """True if it has failures that no success has followed; the next success is then reported."""

    def proof(self) -> BreakerTarget | None:
        """The breaker that a success should be reported to, if any. One success outweighs all failures before it; while
        the breaker is open each success may be the trial's.
        """
        if not (self.is_doubted or self.is_open):
            return None
        self.is_doubted = False
        return self.guarded


@dataclass(frozen=True)
class Target:
    """A place to deliver to, with all that a request needs. `keys`: of its signing secrets, the newest first.
    `endpoint` is unsaved, with the usual timeouts, for a record that has a URL only.
    """

    endpoint: Endpoint
    place: Place
    host: Host
    headers: dict[str, str] = field(default_factory=dict)
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    authorization: str = field(default="", repr=False)

    @property
    def hidden(self) -> list[str]:
        """Texts that no error may quote, should the receiver repeat them."""
        url = self.place.url
        return [self.authorization, *self.authorization.split(), *_parts_of(url), *self.headers.values()]


class Targets:
    """The targets that one event loop knows, each while it is fresh. One query answers simultaneous requests."""

    def __init__(self) -> None:
        self._known: dict[TargetKey, tuple[float, Target | str]] = {}
        self._hosts: dict[str, Host] = {}
        self._wanted: dict[TargetKey, asyncio.Future[Target | str]] = {}
        self._asking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._known)

    async def find(self, key: TargetKey) -> Target | str:
        """The target of `key`, or why nothing can be delivered there. Raises: django.db.Error."""
        asked_at, target = self._known.get(key, (0.0, ""))
        if target and boot_seconds() - asked_at < FRESH_SECONDS:
            return target
        loop = asyncio.get_running_loop()
        wanted = self._wanted.get(key)
        if wanted is None:
            wanted = self._wanted[key] = loop.create_future()
            if self._asking is None:
                self._asking = loop.create_task(self._ask())
        return await asyncio.shield(wanted)

    async def _ask(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                await self._ask_for(wanted)
        finally:
            self._asking = None

    async def _ask_for(self, wanted: "dict[TargetKey, asyncio.Future[Target | str]]") -> None:
        try:
            found = await ask_database(QUEUE, self._load, list(wanted))
        except Exception as error:
            for future in wanted.values():
                future.set_exception(error)
                future.exception()  # seen: perhaps no coroutine waits for it any more
        except BaseException:
            for future in wanted.values():
                future.cancel()
            raise
        else:
            for key, target in found.items():
                wanted[key].set_result(target)

    def _load(self, wanted: Iterable[TargetKey]) -> dict[TargetKey, Target | str]:
        if len(self._known) > MOST_KEPT:
            self._known.clear()
            self._hosts.clear()
        asked_at = boot_seconds()
        found = load(wanted, self._hosts)
        self._known |= {key: (asked_at, target) for key, target in found.items()}
        return found


_of_loop: "WeakKeyDictionary[asyncio.AbstractEventLoop, Targets]" = WeakKeyDictionary()


async def target_of(record: ClaimedRecord) -> Target | Outcome:
    """The target of a claimed record, or the outcome if there is none now. Raises: django.db.Error."""
    loop = asyncio.get_running_loop()
    if (targets := _of_loop.get(loop)) is None:
        targets = _of_loop[loop] = Targets()
    target = await targets.find(key_of(record))
    if isinstance(target, str):
        return Failed(target)
    refused = None
    if target.host.is_open:
        # read again: it may have closed, or have let this very record through as a trial
        refused = await ask_database(record.queue, breakers.refusal, target.host.guarded, record)
    return refused or target


def load(wanted: Iterable[TargetKey], hosts: dict[str, Host]) -> dict[TargetKey, Target | str]:
    """The targets of all keys, or why there is none: three queries for any number. Updates `hosts` (by origin). Raises:
    django.db.Error.
    """
    if not connection.in_atomic_block:
        close_old_connections()  # one that broke while the database was away
    now, wanted = timezone.now(), list(wanted)
    ids = [key.endpoint_id for key in wanted if key.endpoint_id is not None]
    endpoints = Endpoint.objects.prefetch_related("signing_secrets").in_bulk(ids)
    found: dict[TargetKey, Target | str] = {}
    for key in wanted:
        try:
            found[key] = _target(key, endpoints, hosts, now)
        except (AddressRefused, Unsealable, ImproperlyConfigured) as error:
            found[key] = str(error)
    _look_at_breakers({target.place.origin for target in found.values() if isinstance(target, Target)}, hosts)
    return found


def _target(key: TargetKey, endpoints: dict[int, Endpoint], hosts: dict[str, Host], now: datetime) -> Target:
    if key.endpoint_id is None:
        if not key.url:
            raise AddressRefused("the record names neither an endpoint nor a URL: give its schedule an endpoint")
        place = reachable(key.url)
        return Target(Endpoint(kind=key.kind, url=key.url), place, _host(place, hosts))
    endpoint = endpoints.get(key.endpoint_id)
    if endpoint is None:
        raise AddressRefused(f"its endpoint {key.endpoint_id} is gone: give its schedule another one")
    if endpoint.kind != key.kind:
        taken, given = endpoint.get_kind_display(), EndpointKind(key.kind).label
        raise AddressRefused(f"its endpoint {endpoint} takes no {given}s but {taken}s")
    place, authorization = reachable(endpoint.url), unseal(endpoint.sealed_authorization)
    headers = _headers(endpoint.headers, authorization)
    return Target(endpoint, place, _host(place, hosts), headers, tuple(_keys(endpoint, now)), authorization)


def _parts_of(url: URL) -> list[str]:
    """Path and query of a URL, whole and in parts, as they are sent and as they read."""
    pairs = [pair.partition("=") for pair in url.raw_query_string.split("&")]
    values = [*(value or name for name, _, value in pairs), *(value or name for name, value in url.query.items())]
    whole = [url.raw_path_qs, url.path_qs, url.raw_path, url.path, url.raw_query_string, url.query_string]
    return [*whole, *url.raw_parts, *url.parts, *values]


def _keys(endpoint: Endpoint, now: datetime) -> list[bytes]:
    try:
        return signing.keys_in_use(endpoint.signing_secrets.all(), now)
    except ValueError as error:
        raise AddressRefused(f"a signing secret of {endpoint} is not one: {error}; rotate it") from None


def _headers(given: Any, authorization: str) -> dict[str, str]:
    headers = given if isinstance(given, dict) else {}
    left_out = NOT_TO_BE_SET | {"authorization"} if authorization else NOT_TO_BE_SET
    return {str(name): str(value) for name, value in headers.items() if str(name).lower() not in left_out}


def _host(place: Place, hosts: dict[str, Host]) -> Host:
    origin = place.origin
    return hosts.setdefault(origin, Host(BreakerTarget(f"host:{origin}", origin)))


def _look_at_breakers(origins: set[str], hosts: dict[str, Host]) -> None:
    by_key = {hosts[origin].guarded.key: hosts[origin] for origin in origins}
    rows = {row.key: row for row in Breaker.objects.filter(key__in=by_key)}
    for key, host in by_key.items():
        row = rows.get(key)
        host.is_open = row is not None and row.is_open
        if row is not None and row.failures:
            # never set back to False here: a failure of a moment ago may not have been counted yet
            host.is_doubted = True
