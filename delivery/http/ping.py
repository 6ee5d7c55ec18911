"""A dead-man ping: a GET to a service that raises an alarm when it no longer comes. Under the rules of callbacks."""

import asyncio

from delivery.addresses import AddressRefused, reachable
from delivery.http import client

SECONDS = 10.0


async def get(url: str, *, failed: bool = False) -> str:
    """Request `url`, with `/fail` appended to its path if something failed. Returns why the request did not arrive,
    without the URL; empty if it did.
    """
    try:
        place = reachable(url)
    except AddressRefused as refused:
        return str(refused)
    address = (place.url / "fail").with_query(place.url.query) if failed else place.url
    try:
        async with asyncio.timeout(SECONDS), client.session().get(address, allow_redirects=False) as answer:
            return "" if answer.status < 300 else f"{place.origin} answered {answer.status}"
    except client.RAISED as error:
        return client.describe(error, place.origin, SECONDS, SECONDS)
