"""Servers that the rclone of a repository may connect to by HTTP: no redirect leads it elsewhere.

Where the settings name the server of a remote (a WebDAV share, a bucket at an endpoint), only that one. A provider has
many servers, whose names only it knows: then the named ones and all public ones. A remote that asks the host for its
identity (`env_auth`) reaches the host's metadata service as well.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from external import special_addresses
from external.formatting import on_one_line
from external.processes.advice import without_advice
from external.processes.repeated_texts import without_answers
from storage.places import providers
from storage.places.location import Location

Server = tuple[str, int]

NOWHERE = "socks5://127.0.0.1:0"
"""A port that nothing can listen on: a remote that does not speak HTTP gets no connection if it tries to."""
WITHOUT_HTTP = {"sftp": 22, "smb": 445}
"""Types that rclone connects to directly, and their usual ports."""
ELSEWHERE = re.compile(r"role_arn|ibm_.*|sts_.*")
"""Settings of a bucket with which its credentials come from another server."""
METADATA = (("169.254.169.254", 80), ("169.254.170.2", 80), ("metadata.google.internal", 80))
CONNECT_SECONDS = 60.0

REFUSED = re.compile(
    r"socks connect tcp \S{1,300}->(\S{1,300}): "
    r"unknown error (connection not allowed by ruleset|general SOCKS server failure)?"
)
REDIRECTED = "redirects to another server are not followed"
LED_ASTRAY = "host unreachable, for " + special_addresses.WHY
UNSEALED = re.compile(
    r"(Attempt \d+/\d+ failed with \d+ errors? and: )?(Failed to copy: )?(failed to open source object: )?"
    r"(failed to authenticate decrypted block - bad password\?|not an encrypted file - bad magic string|"
    r"file is too short to be encrypted|file has truncated block header)"
)
"""rclone's messages about the content of an encrypted file."""
DAMAGED_OR_FOREIGN = "the repository there is damaged, or was encrypted with another key"
ARCHIVED = re.compile(r"Object in GLACIER|InvalidObjectState|BlobArchived")
"""Messages about an object that a rule of its bucket has moved to an archive, where it cannot be read: of this object
alone.
"""


def servers_of(remote: Mapping[str, Any], path: str) -> set[Server]:
    """Host and port of each server, `gate.PUBLIC` among them, of a remote with these settings of rclone, and a path in
    it.
    """
    from external.network import (
        contact,
        gate,
    )  # asyncio costs 60 ms, which a folder on this host should not have to wait for

    kind, found = remote["type"], set[Server]()
    if kind in WITHOUT_HTTP:
        return found
    if kind == "ftp":
        return {(str(remote.get("host", "")), gate.ANY_PORT)}
    for name, value in remote.items():
        text = str(value)
        if name.endswith("endpoint") and text and "://" not in text:
            text = f"https://{text}"
        if re.match("https?://", text):
            found.add(contact.host_and_port(text))
    if kind == "s3":  # a provider may want the bucket in the name of the host
        found |= {(f"{path.partition('/')[0]}.{host}", port) for host, port in found}
    if of_the_worker := providers.of_the_worker(remote):
        found |= {*METADATA}
    is_named = kind == "webdav" and not str(remote.get("vendor", "")).startswith("sharepoint")
    is_named |= kind == "s3" and bool(remote.get("endpoint")) and not any(map(ELSEWHERE.fullmatch, remote))
    return found if is_named and not of_the_worker else found | {gate.PUBLIC}


def hosts_of(remote: Mapping[str, Any]) -> list[str]:
    """The hosts that a remote with these settings names."""
    found = [str(remote["host"])] if remote.get("host") else []
    for name, value in remote.items():
        text = str(value)
        if "://" in text or name.endswith(("endpoint", "url")):
            found += [urlsplit(text if "://" in text else f"//{text}").hostname or ""]
    return found


def at_its_address(remote: dict[str, str], address_of: Callable[[str, int], str]) -> dict[str, str]:
    """The settings of a remote with its server's address in place of the name, where rclone would look up the name
    outside a gate. `address_of`: finds the address at which a host and a port are reached.
    """
    usual = WITHOUT_HTTP.get(remote["type"])
    host = remote.get("host", "").strip("[]")
    if usual is None or not host:
        return remote
    address = address_of(host, int(remote.get("port") or usual))
    return remote | {"host": f"[{address}]" if ":" in address else address}


@contextmanager
def gate(servers: Collection[Server], connect_timeout: float) -> Iterator[str]:
    """The URL of a proxy that connects to these servers only, while the block lasts. Raises: OSError if this process
    has no socket left.
    """
    if not servers:
        yield NOWHERE
        return
    from external.network.gate import gate_to

    with gate_to(servers, connect_timeout) as url:
        yield url


@contextmanager
def reached(
    location: Location, beside: Location | None = None, connect_timeout: float = CONNECT_SECONDS
) -> Iterator[dict[str, str]]:
    """The environment of an rclone that reaches a repository, and another one `beside` it, each through a separate
    gate, while the block lasts. Raises: OSError.
    """
    places = [location, beside] if beside else [location]
    remotes = [each for each in places if not each.directory]
    environment = {name: value for each in places for name, value in each.environment.items()}
    with ExitStack() as gates:
        for each in remotes:
            name = each.outside.partition(":")[0].upper()
            url = gates.enter_context(gate(each.servers, connect_timeout))
            before = f"RCLONE_CONFIG_{name}_"
            own = {option: each.environment.get(f"{before}{option.upper()}", "") for option in ("type", "host", "port")}
            settings = at_its_address(own, lambda host, port: special_addresses.address_of(host, port, connect_timeout))
            settings = {"host": settings["host"]} if settings["host"] else {}
            settings |= through(url, own["type"])
            environment |= {f"{before}{option.upper()}": value for option, value in settings.items()}
            environment |= of_libraries(url)
        if len(remotes) > 1:  # libraries know one way out only
            both = {server for each in remotes for server in each.servers}
            environment |= of_libraries(gates.enter_context(gate(both, connect_timeout)))
        yield environment


def through(gate: str, kind: str) -> dict[str, str]:
    """rclone's settings by which a remote of this type connects through a gate."""
    proxy = {"socks_proxy": gate.removeprefix("socks5://")} if kind == "ftp" else {}
    return {"override.http_proxy": gate} | proxy


def of_libraries(gate: str) -> dict[str, str]:
    """Variables for those of rclone's libraries that do not use its proxy settings."""
    return dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), gate)


def explained(message: str) -> str:
    """A message of rclone on one line, without its advice and a server's words. A connection that the gate refused, and
    a file that it cannot decrypt, are named as such: a flipped bit is not a wrong password.
    """
    message = UNSEALED.sub(DAMAGED_OR_FOREIGN, without_advice(without_answers(message)))
    why = {None: "", "general SOCKS server failure": LED_ASTRAY}
    return on_one_line(REFUSED.sub(lambda found: f"{found[1]}: {why.get(found[2], REDIRECTED)}", message))
