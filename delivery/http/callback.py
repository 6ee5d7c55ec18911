"""Delivers an event by HTTP: POST with a JSON body. Hundreds at once, on the worker's event loop.

    {"schedule": "nightly", "trigger_at": "2026-03-02T09:00:00Z", "event_id": "7-20260302T090000Z-3", "number": 3,
     "count": 10, "payload": {…}}

`Idempotency-Key` is the event's id: a receiver that sees it again (its answer was lost, a worker was killed) has
handled the event already. Any 2xx is a delivery; its body is read, to use the connection again, and thrown away.
`delivery/http/failures.py` has the meaning of other answers.
"""

import asyncio
import time
from datetime import UTC, datetime

from yarl import URL

from delivery import signing
from delivery.addresses import AddressRefused, Place, reachable, read
from delivery.events import body_of, event_id_of
from delivery.http import client
from delivery.http.failures import FOLLOWED, HttpAnswer, failure_of
from delivery.targets import Target, target_of
from jobs.handlers import Run
from jobs.outcomes import ClaimedRecord, Facts, Failed, Outcome, Succeeded

MOST_REDIRECTS = 5


async def deliver(run: Run) -> Outcome:
    """Deliver a claimed event. Cancelled, it breaks off: the record is released, and delivered again.

    Raises: django.db.Error if the database does not return its target.
    """
    target = await target_of(run.record)
    return await _post(run.record, target) if isinstance(target, Target) else target


async def _post(record: ClaimedRecord, target: Target) -> Outcome:
    began, host, timeout = time.perf_counter(), target.host, target.endpoint.timeout
    event_id = event_id_of(record.payload, record.subject)
    exchange = Exchange(target, event_id, body_of(record.payload, record.subject).encode())
    try:
        async with asyncio.timeout(timeout):
            answer = await exchange.run()
    except NotFollowed as error:
        return Failed(str(error), facts=_facts(began))
    except client.RAISED as error:
        text = client.describe(error, exchange.at.origin, target.endpoint.connect_timeout, timeout)
        failed = Failed(text, fault_of=None if client.is_ours(error) else host.guarded, facts=_facts(began))
    else:
        facts = {**_facts(began), **answer.facts}
        if answer.is_success:
            return Succeeded(proves=host.proof(), facts=facts)
        failed = failure_of(answer, host.guarded, exchange.at.origin, target.hidden, facts, datetime.now(UTC))
    if failed.fault_of:
        host.is_doubted = True
    return failed


def _facts(began: float) -> Facts:
    return {"seconds": round(time.perf_counter() - began, 4)}


class NotFollowed(Exception):
    """A redirect leads to a place to which deliveries may not go; the message is for users."""


class Exchange:
    """One delivery: the request, the redirects that are followed, and the part of the answer that is read.

    `at`: the place that the request goes to now; after a redirect, not the target's."""

    def __init__(self, target: Target, event_id: str, body: bytes) -> None:
        self.target, self.at = target, target.place
        self._event_id, self._body = event_id, body
        self._redirects = 0

    async def run(self) -> HttpAnswer:
        """Send it, and again to the targets of redirects, if the endpoint follows them. There is no time limit here.

        Raises: NotFollowed; the exceptions in `client.RAISED`.
        """
        connect_timeout = self.target.endpoint.connect_timeout
        while True:
            response, body = await client.post(self.at.url, self._body, self._headers(), connect_timeout)
            status = response.status
            location = response.headers.get("Location", "") if 300 <= status < 400 else ""
            if not (location and status in FOLLOWED and self.target.endpoint.follow_redirects):
                leads_to = self._origin_of(location) if location else ""
                return HttpAnswer(status, body, response.headers.get("Retry-After", ""), leads_to, self._redirects)
            self.at = self.follow(location)

    def _headers(self) -> dict[str, str]:
        """The headers of a request. Headers that prove our identity go to the endpoint's own origin only."""
        target = self.target
        headers = {"Content-Type": "application/json", "Idempotency-Key": self._event_id}
        if self.at is not target.place and self.at.origin != target.place.origin:
            return headers
        headers |= target.headers
        if target.authorization:
            headers["Authorization"] = target.authorization
        if target.keys:
            headers |= signing.headers(self._event_id, int(time.time()), self._body, target.keys)
        return headers

    def follow(self, location: str) -> Place:
        """The target of a redirect, checked as the first address was. Raises: NotFollowed."""
        it = f"{self.at.origin} redirects"
        self._redirects += 1
        if self._redirects > MOST_REDIRECTS:
            raise NotFollowed(f"{it} again, after {MOST_REDIRECTS} redirects; give the endpoint the URL at their end")
        try:
            place = reachable(self._joined(location))
        except AddressRefused as refused:
            raise NotFollowed(f"{it} to where nothing is delivered: {refused}") from None
        if self.at.url.scheme == "https" and place.url.scheme == "http":
            raise NotFollowed(f"{it} to {place.origin}, which is not encrypted")
        return place

    def _joined(self, location: str) -> str:
        try:
            return str(self.at.url.join(URL(location)))
        except ValueError:
            raise AddressRefused("its Location header is not a URL") from None

    def _origin_of(self, location: str) -> str:
        try:
            return read(self._joined(location)).origin
        except AddressRefused:
            return "something that is not a URL"
