"""What is known of where a record goes: its endpoint with headers and secrets, and the breaker of its host.

Asked of the database once for many records, and kept for FRESH_SECONDS: what a person changes (a URL, a secret that is
rotated or retires, an endpoint that is removed) takes effect within that time and a query. So is a breaker that another
worker's failures open; `jobs/breakers/` is asked itself, then, so none is held that was let through as a trial.

An endpoint's present URL counts, so that one that was wrong can be corrected while records wait for their retry, and no
secret of a new URL goes to an old one. A record that names no endpoint goes to the URL that it has, unsigned.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connection
from django.utils import timezone
from yarl import URL

from delivery import signing
from delivery.addresses import Place, Refused, read, refuse_unless_allowed
from delivery.encryption import Unsealable, unseal
from delivery.models import Endpoint, EndpointKind
from jobs.models import Breaker
from jobs.outcomes import Guarded

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 30.0
"""Of a record that names no endpoint."""

NOT_TO_BE_SET = frozenset(
    {
        # the HTTP client's own: with others a receiver would read another message than was sent
        *("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding"),
        *("accept-encoding", "upgrade"),
        # ours: what is signed, and what tells one event from another
        *("content-type", "idempotency-key", signing.ID, signing.TIMESTAMP, signing.SIGNATURE),
    }
)
"""Headers that an endpoint cannot give, in lower case. Authorization has a place of its own, and is sealed there."""


class Key(NamedTuple):
    """What a target is found by: the endpoint's id, or the record's URL."""

    endpoint_id: int | None
    url: str


class Undeliverable(Exception):
    """Nothing can be delivered there; the message says why and what to do."""


@dataclass
class Host:
    """What the breaker of an origin was when it was looked at, and what has happened here since."""

    guarded: Guarded
    is_open: bool = False
    is_doubted: bool = False
    """Whether it has failures that no success has followed: then the next success has to say so."""

    def proof(self) -> Guarded | None:
        """What a success proves, if a breaker needs to know. One success is enough for all failures before it; while it
        is open every one may be the trial's."""
        if not (self.is_doubted or self.is_open):
            return None
        self.is_doubted = False
        return self.guarded


@dataclass(frozen=True)
class Target:
    """Where to deliver, and with what. `keys`: of its signing secrets, the newest first. Durations in seconds."""

    place: Place
    host: Host
    connect_timeout: float = CONNECT_SECONDS
    timeout: float = ANSWER_SECONDS
    follow_redirects: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    authorization: str = field(default="", repr=False)

    @property
    def hidden(self) -> list[str]:
        """What no error may quote, should the receiver repeat it."""
        url = self.place.url
        return [self.authorization, *self.authorization.split(), *_parts_of(url), *self.headers.values()]


def load(wanted: Iterable[Key], hosts: dict[str, Host], now: datetime | None = None) -> dict[Key, Target | str]:
    """Targets, or why there is none, of all keys: three queries for as many as there are. `hosts` (by origin) is
    brought up to date. Raises: django.db.Error."""
    if not connection.in_atomic_block:
        close_old_connections()  # one that broke while the database was away
    instant, wanted = now or timezone.now(), list(wanted)
    ids = [key.endpoint_id for key in wanted if key.endpoint_id is not None]
    endpoints = Endpoint.objects.prefetch_related("signing_secrets").in_bulk(ids)
    found: dict[Key, Target | str] = {}
    for key in wanted:
        try:
            found[key] = _target(key, endpoints, hosts, instant)
        except (Refused, Unsealable, Undeliverable, ImproperlyConfigured) as error:
            found[key] = str(error)
    _look_at_breakers({target.place.origin for target in found.values() if isinstance(target, Target)}, hosts)
    return found


def _target(key: Key, endpoints: dict[int, Endpoint], hosts: dict[str, Host], now: datetime) -> Target:
    if key.endpoint_id is None:
        if not key.url:
            raise Undeliverable("the record names neither an endpoint nor a URL: give its schedule an endpoint")
        place = _place(key.url)
        return Target(place, _host(place, hosts))
    endpoint = endpoints.get(key.endpoint_id)
    if endpoint is None:
        raise Undeliverable(f"its endpoint {key.endpoint_id} is gone: give its schedule another one")
    if endpoint.kind != EndpointKind.HTTP_CALLBACK:
        raise Undeliverable(f"its endpoint {endpoint} takes no HTTP callbacks but {endpoint.get_kind_display()}s")
    place, authorization = _place(endpoint.url), unseal(endpoint.sealed_authorization)
    return Target(
        place,
        _host(place, hosts),
        endpoint.connect_timeout,
        endpoint.timeout,
        endpoint.follow_redirects,
        _headers(endpoint.headers, authorization),
        tuple(_keys(endpoint, now)),
        authorization,
    )


def _parts_of(url: URL) -> list[str]:
    """Path and query of a URL, whole and in parts, as they are sent and as they read."""
    pairs = [pair.partition("=") for pair in url.raw_query_string.split("&")]
    values = [*(value or name for name, _, value in pairs), *(value or name for name, value in url.query.items())]
    whole = [url.raw_path_qs, url.path_qs, url.raw_path, url.path, url.raw_query_string, url.query_string]
    return [*whole, *url.raw_parts, *url.parts, *values]


def _place(url: str) -> Place:
    place = read(url)
    refuse_unless_allowed(place)
    return place


def _keys(endpoint: Endpoint, now: datetime) -> list[bytes]:
    try:
        return signing.keys_in_use(endpoint.signing_secrets.all(), now)
    except ValueError as error:
        raise Undeliverable(f"a signing secret of {endpoint} is not one: {error}; rotate it") from None


def _headers(given: Any, authorization: str) -> dict[str, str]:
    headers = given if isinstance(given, dict) else {}
    left_out = NOT_TO_BE_SET | {"authorization"} if authorization else NOT_TO_BE_SET
    return {str(name): str(value) for name, value in headers.items() if str(name).lower() not in left_out}


def _host(place: Place, hosts: dict[str, Host]) -> Host:
    origin = place.origin
    return hosts.setdefault(origin, Host(Guarded(f"host:{origin}", origin)))


def _look_at_breakers(origins: set[str], hosts: dict[str, Host]) -> None:
    by_key = {hosts[origin].guarded.key: hosts[origin] for origin in origins}
    rows = {row.key: row for row in Breaker.objects.filter(key__in=by_key)}
    for key, host in by_key.items():
        row = rows.get(key)
        host.is_open = row is not None and row.is_open
        if row is not None and row.failures:
            # never taken back here: what failed a moment ago may not have been counted yet
            host.is_doubted = True
