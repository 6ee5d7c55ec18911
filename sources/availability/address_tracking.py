"""The place of an SFTP source whose agent checks in from another address: the one where its pinned host key answers.

Its agent names addresses, but is only believed when a key exchange at one of them proves the pinned key: an agent's
token is not enough to have backups fetched from another host. Without a pinned key or a check-in from elsewhere this is
the plain question of `sources.availability.probes`, which policies that do not follow addresses also ask.

The known address gets a head start. After that whichever proves the pinned key first is the source.
"""

import asyncio
import base64
import ipaddress
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from delivery import extras
from external.network import contact
from sources.availability import probes
from sources.availability.host_keys import shown_key
from sources.availability.probes import Answer
from sources.models import Source
from sources.models.source import SourceKind
from storage.places import host_keys

log = logging.getLogger(__name__)

MAX_CANDIDATES = 32
"""The most addresses of one check-in. A host has no more addresses than that; a list of them may."""
HEAD_START_SECONDS = 1.0
"""Seconds for the address that is known: while the source is there, no other is contacted."""


async def ask_where_it_is(source: Source, timeout: float) -> tuple[Answer, str | None]:
    """Contact `source`, for at most `timeout` seconds: where it was and, if it may have moved, where it checked in.

    The second is its new address, where its pinned host key has just answered. None if it is where it was, or silent.
    """
    if not candidates_of(source):
        return await probes.ask(source, timeout), None
    if lacking := extras.missing("asyncssh", "looking for it where it checked in"):
        answer = await probes.ask(source, timeout)
        return answer if answer.present else replace(answer, text=f"{answer.text}; {lacking}"), None
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    here = asyncio.ensure_future(_ask_here(source, timeout))
    under_way: list[asyncio.Future[Any]] = [here]
    try:
        await asyncio.wait({here}, timeout=min(HEAD_START_SECONDS, timeout / 4))
        if not (here.done() and here.result().is_pinned):
            under_way.append(elsewhere := asyncio.ensure_future(find(source, deadline - loop.time())))
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            if not (here.done() and here.result().is_pinned) and (address := await elsewhere):
                return Answer(True, f"{address} is the source now, no longer {probes.place_of(source)}"), address
        return (await here).answer, None
    finally:
        for question in under_way:
            question.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def find(source: Source, timeout: float) -> str | None:
    """The first of the addresses of its last check-in, except the one that is known, at which the pinned host key of
    `source` answers within `timeout` seconds. None if it answers at none.
    """
    _, port = probes.contact_point(source)

    async def prove(address: str) -> str:
        try:
            if await shows_pinned_key(address, port, source.host_key):
                return address
        except OSError as error:
            log.info("%s is not at %s, from where it checked in: %s", source.name, address, contact.reason(error))
            raise
        log.warning("%s checked in from %s, but another host key answers at port %s there", source.name, address, port)
        raise OSError("another host key")

    try:
        async with asyncio.timeout(timeout):
            return await contact.first_of(candidates_of(source), prove)
    except OSError:  # a timeout is one
        return None


def candidates_of(source: Source) -> list[str]:
    """The addresses to which a source may have moved: IP addresses of its last check-in, except the known one. Names
    are left out, since an agent must not choose look-ups.
    """
    if source.kind != SourceKind.SFTP or source.checked_in_at is None or not _pinned(source.host_key):
        return []
    found = dict.fromkeys(_usable(source.addresses))
    found.pop(_plain(source.address), None)
    return list(found)[:MAX_CANDIDATES]


async def shows_pinned_key(address: str, port: int, host_key: str) -> bool:
    """True if the SSH host at an IP address proves, by a key exchange, to have one of these pinned keys.

    It is asked only for keys of their types, since a host has several. There is no login.

    Raises: OSError when nothing answers.
    """
    import asyncssh

    try:
        key = await shown_key(address, port, ",".join(host_keys.algorithms_of(host_key)).split(","))
    except asyncssh.ConnectionLost as error:
        raise OSError(f"it hung up: {error}") from None
    except asyncssh.Error as error:
        log.info("%s port %s proves no pinned host key: %s", address, port, error)
        return False
    return key is not None and key.public_data in _pinned(host_key)


def _pinned(host_key: str) -> set[bytes]:
    """The bytes of each key, as SSH sends them. Text that is not a key is left out."""
    keys = set()
    for _, text in host_keys.pinned_keys(host_key):
        with suppress(ValueError):
            keys.add(base64.b64decode(text, validate=True))
    return keys


class _KnownAddressAnswer(NamedTuple):
    """The answer of the known address, and whether it proved the pinned key."""

    answer: Answer
    is_pinned: bool = False


async def _ask_here(source: Source, timeout: float) -> _KnownAddressAnswer:
    place = probes.place_of(source)
    host, port = probes.contact_point(source)
    try:
        async with asyncio.timeout(timeout):
            addresses = await contact.addresses_of(host)
            if await contact.first_of(addresses, lambda address: shows_pinned_key(address, port, source.host_key)):
                return _KnownAddressAnswer(Answer(True, f"{place} answered with its host key"), is_pinned=True)
    except TimeoutError:
        return _KnownAddressAnswer(Answer(False, f"{place} did not answer within {timeout:g} s"))
    except OSError as error:
        return _KnownAddressAnswer(Answer(False, f"{place} did not answer: {contact.reason(error)}"))
    # an address that it does not claim is another host's now; one that it does must be looked at by an operator, and
    # its engine reports that
    is_its_own = not contact.is_address(host) or _plain(host) in _usable(source.addresses)
    return _KnownAddressAnswer(Answer(is_its_own, f"{place} showed another host key than the pinned one"))


def _usable(addresses: Iterable[object]) -> Iterable[str]:
    """The addresses that name one host, in plain form."""
    for text in addresses:
        try:
            address = ipaddress.ip_address(str(text))
        except ValueError:
            continue
        if contact.names_a_host(address):
            yield str(address)


def _plain(address: str) -> str:
    return str(ipaddress.ip_address(address)) if contact.is_address(address) else address
