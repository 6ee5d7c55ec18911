"""SSH host keys as users paste them: `ssh-ed25519 AAAA…`, one per line; and the key that a host shows."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from delivery import extras
from external import special_addresses
from external.network import contact

TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
FETCH_SECONDS = 8.0
HOW_TO_GET_ONE = (
    "let its page in the admin fetch it, or get it by `ssh-keyscan ADDRESS`, and leave out the address in front"
)


def check_host_key(text: str) -> None:
    """Check one or more lines of `TYPE BASE64`. Raises: ValueError naming the problem and the remedy."""
    from cryptography.exceptions import UnsupportedAlgorithm  # late: code that only follows addresses does without
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"is missing: an SFTP host must show a known host key; {HOW_TO_GET_ONE}")
    for line in lines:
        kind, _, rest = line.strip().partition(" ")
        if kind not in TYPES:
            raise ValueError(f"{kind!r} is not a type of host key ({', '.join(TYPES)}); {HOW_TO_GET_ONE}")
        try:
            load_ssh_public_key(f"{kind} {rest}".encode())
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError(
                f"the text after {kind} is not such a key: it is cut off or altered; {HOW_TO_GET_ONE}"
            ) from None


@dataclass(frozen=True)
class ShownKey:
    """The key that a host showed: as it is pinned, and its fingerprint as `ssh-keygen -l` prints it."""

    host_key: str
    fingerprint: str


def fetch_now(address: str, port: int | None) -> ShownKey:
    """The host key that answers now, for the user to compare: an attacker in between shows another one. There is no
    login.

    Raises: OSError with the reason why there is none.
    """
    if lacking := extras.missing("asyncssh", "fetching a host key"):
        raise OSError(lacking)
    return asyncio.run(_fetch(address, port or 22))


async def _fetch(address: str, port: int) -> ShownKey:
    import asyncssh

    try:
        async with asyncio.timeout(FETCH_SECONDS):
            addresses = await contact.addresses_of(address)
            key = await contact.first_of(addresses, lambda each: shown_key(each, port, TYPES))
    except TimeoutError:
        raise OSError(f"{address}:{port} showed no host key within {FETCH_SECONDS:g} s") from None
    except (asyncssh.Error, OSError) as error:
        # without the text that it sent: an account that may change an address could read the banners of a whole network
        why = "it is not an SSH host that shows one"
        if isinstance(error, special_addresses.GuardedAddress) or (isinstance(error, OSError) and error.strerror):
            why = contact.reason(error)
        raise OSError(f"{address}:{port} showed no host key: {why}") from None
    if key is None:
        raise OSError(f"{address}:{port} showed no host key")
    return ShownKey(key.export_public_key("openssh").decode().strip(), key.get_fingerprint())


async def shown_key(address: str, port: int, algorithms: Collection[str]) -> Any:
    """The key of one of these algorithms that the SSH host at an IP address proves to have, by a key exchange without a
    login, as asyncssh has it. None if it shows none. Raises: OSError, asyncssh.Error.
    """
    import asyncssh  # a third of a second, which only callers that ask pay

    asyncssh.set_log_level(logging.WARNING)
    # nothing of the account's own: no configuration, keys or agent
    options = asyncssh.SSHClientConnectionOptions(config=None, client_keys=None, agent_path=None, username="backup")
    return await asyncssh.get_server_host_key(
        address, port, config=None, server_host_key_algs=list(algorithms), options=options
    )
