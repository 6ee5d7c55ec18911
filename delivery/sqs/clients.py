"""boto3's clients, one for each server, region and pair of timeouts: making one costs tens of milliseconds.

They are safe to share between threads. boto3 is an optional extra: it is imported when a client is first made.
Credentials come from boto3's own chain and are kept nowhere else. A client that is refused for its credentials is
forgotten, so that the next attempt looks for new ones.
"""

import os
import socket
from collections import OrderedDict
from threading import Lock
from typing import Any, NamedTuple

from delivery import extras
from delivery.addresses import refuse_addresses

NO_REGION = "the region of the queue is not known: set it at the endpoint, or AWS_DEFAULT_REGION where the worker runs"

MOST_CLIENTS = 50
"""The one that was used least lately is forgotten."""

CONNECTIONS = 200
"""Kept for one client: as many as one worker may send at once."""


class Unready(Exception):
    """There can be no client. Its text says what to do."""


class ClientKey(NamedTuple):
    """What a client is made for: scheme and host, region (empty: as the environment says), seconds."""

    server: str
    region: str
    connect_timeout: float
    timeout: float


_clients: OrderedDict[ClientKey, Any] = OrderedDict()
_lock = Lock()


def client_for(key: ClientKey) -> Any:
    """The client. Raises: Unready; what boto3 raises for a broken configuration."""
    with _lock:
        client = _clients.get(key) or _made(key)
        _clients[key] = client
        _clients.move_to_end(key)
        while len(_clients) > MOST_CLIENTS:
            _clients.popitem(last=False)
        return client


def forget(key: ClientKey) -> None:
    """The next one looks for credentials anew."""
    with _lock:
        _clients.pop(key, None)


def _made(key: ClientKey) -> Any:
    if lacking := extras.missing("boto3", "SQS"):
        raise Unready(f"{lacking}; then restart the worker")
    from boto3.session import Session  # type: ignore[import-untyped]
    from botocore.config import Config  # type: ignore[import-untyped]

    session = Session()
    region = key.region or session.region_name or os.environ.get("AWS_REGION")
    if not region:
        raise Unready(NO_REGION)
    # its own retries would hide failures from the retry policy, and take a thread each; a proxy would be asked for the
    # name of the host in place of us, so no rule about addresses could hold
    config = Config(
        connect_timeout=key.connect_timeout,
        read_timeout=key.timeout,
        retries={"total_max_attempts": 1},
        max_pool_connections=CONNECTIONS,
        proxies={},
    )
    client = session.client("sqs", region_name=region, endpoint_url=key.server, config=config)
    _guard(client)
    return client


def _guard(client: Any) -> None:
    """Let it connect only to allowed addresses: a name may lead elsewhere than when it was checked."""
    from botocore.awsrequest import (  # type: ignore[import-untyped]
        AWSHTTPConnection,
        AWSHTTPConnectionPool,
        AWSHTTPSConnection,
        AWSHTTPSConnectionPool,
    )

    pools = {"http": (AWSHTTPConnectionPool, AWSHTTPConnection), "https": (AWSHTTPSConnectionPool, AWSHTTPSConnection)}
    client._endpoint.http_session._manager.pool_classes_by_scheme = {
        scheme: type(pool.__name__, (pool,), {"ConnectionCls": _guarded(connection)})
        for scheme, (pool, connection) in pools.items()
    }


def _guarded(connection_class: Any) -> Any:
    """That class of connections; where one leads is asked before it is made, and of itself before anything is sent."""

    class Guarded(connection_class):  # type: ignore[misc]
        def _new_conn(self) -> socket.socket:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            refuse_addresses(self.host, (str(address[0]) for *_, address in found))
            made: socket.socket = super()._new_conn()
            try:
                refuse_addresses(self.host, [str(made.getpeername()[0])])
            except Exception:
                made.close()
                raise
            return made

    return Guarded
