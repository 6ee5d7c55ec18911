"""One delivery over HTTP: the request, the redirects that are followed, and what is read of the answer."""

import time
from functools import lru_cache
from io import BytesIO

from aiohttp import (
    ClientConnectionResetError,
    ClientConnectorError,
    ClientOSError,
    ClientResponse,
    ClientTimeout,
    ServerDisconnectedError,
)
from yarl import URL

from delivery import signing
from delivery.addresses import Place, Refused, read, refuse_unless_allowed
from delivery.http.answers import FOLLOWED, Answer
from delivery.http.sessions import Made, asking, session
from delivery.targets import Target

MOST_REDIRECTS = 5
MOST_READ = 65_536
"""Bytes of an answer. What sends more has answered, but its connection is not used again."""
LARGE_BODY = 1_000_000
"""Bytes from which the client wants a file, so that it sends piece by piece."""


class NotFollowed(Exception):
    """A redirect leads where nothing is delivered; the message is for people."""


class Exchange:
    """`at`: the place that is asked now; another one than the target's after a redirect."""

    def __init__(self, target: Target, event_id: str, body: bytes) -> None:
        self.target, self.at = target, target.place
        self._event_id, self._body = event_id, body
        self._redirects = 0

    async def run(self) -> Answer:
        """Send it, and again to where redirects lead, if the endpoint follows them. Takes as long as it takes.

        Raises: NotFollowed; what `delivery.failures` knows.
        """
        while True:
            response = await self._send()
            try:
                status = response.status
                body = await _beginning_of(response)
            finally:
                response.release()  # closes the connection, unless the answer is read to its end
            location = response.headers.get("Location", "") if 300 <= status < 400 else ""
            if not (location and status in FOLLOWED and self.target.follow_redirects):
                leads_to = self._origin_of(location) if location else ""
                return Answer(status, body, response.headers.get("Retry-After", ""), leads_to, self._redirects)
            self.at = self.follow(location)

    async def _send(self) -> ClientResponse:
        """Send it to where we are.

        The host may have closed a connection that was kept, just when it is used again. That says nothing about this
        event, which then goes once more; its id would tell the host if it had come twice.
        """
        made = Made()
        asking.set(made)
        try:
            return await self._post()
        except (ServerDisconnectedError, ClientConnectionResetError, ClientOSError) as error:
            if made.a_connection or isinstance(error, ClientConnectorError):
                raise
        return await self._post()

    async def _post(self) -> ClientResponse:
        return await session().post(
            self.at.url,
            data=self._body if len(self._body) < LARGE_BODY else BytesIO(self._body),
            headers=self._headers(),
            allow_redirects=False,
            timeout=_client_timeout(self.target.connect_timeout),
        )

    def _headers(self) -> dict[str, str]:
        """What proves who we are is for the endpoint's own origin only."""
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
        """Where a redirect leads, checked as the first address was. Raises: NotFollowed."""
        it = f"{self.at.origin} redirects"
        self._redirects += 1
        if self._redirects > MOST_REDIRECTS:
            raise NotFollowed(f"{it} again, after {MOST_REDIRECTS} redirects; give the endpoint the URL at their end")
        try:
            place = self._joined(location)
            refuse_unless_allowed(place)
        except Refused as refused:
            raise NotFollowed(f"{it} to where nothing is delivered: {refused}") from None
        if self.at.url.scheme == "https" and place.url.scheme == "http":
            raise NotFollowed(f"{it} to {place.origin}, which can be read on the way")
        return place

    def _joined(self, location: str) -> Place:
        try:
            return read(str(self.at.url.join(URL(location))))
        except ValueError:
            raise Refused("its Location header is no URL") from None

    def _origin_of(self, location: str) -> str:
        try:
            return self._joined(location).origin
        except Refused:
            return "something that is no URL"


@lru_cache(maxsize=64)
def _client_timeout(connect_timeout: float) -> ClientTimeout:
    """The caller of the exchange holds the time for all of it."""
    return ClientTimeout(total=None, connect=connect_timeout)


async def _beginning_of(response: ClientResponse) -> bytes:
    content = response.content
    body = b""
    while len(body) < MOST_READ and (more := await content.read(MOST_READ - len(body))):
        body += more
    return body
