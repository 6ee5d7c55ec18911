"""Sends one message by Apprise, in a process of its own: Apprise may hang, and knows no rules of where it may connect.

The order is a JSON object on standard input; a line of JSON with the answer comes out. Each connection that is made
here, after redirects and for whichever name, is to an address that is public or allowed: what is checked is the very
address that the system connects to, so no name can mean another one in between.
"""

import json
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from external.processes.serving import bound_memory

LONGEST_SECONDS = 60
"""After which this process ends, should its worker be gone."""
LARGEST_MEMORY = 256 << 20
"""Bytes. Apprise keeps what it is answered in memory, however much that is; it needs a sixth of this by itself."""
MOST_PARTS = 3
"""Of a message. Apprise waits for five seconds between two of them, and a pager calls for each."""
TITLE = 300
"""Characters: some services take the title as a part of the text."""


class Refused(OSError):
    """Nothing is sent there. The message is for people."""


def main() -> None:
    signal.alarm(LONGEST_SECONDS)
    order = json.loads(sys.stdin.read())
    bound_memory(LARGEST_MEMORY)
    guard(order["allowed"])
    answer = {"ok": True, "reason": ""} if (reason := send(order)) is None else {"ok": False, "reason": reason}
    sys.stdout.write(f"{json.dumps(answer)}\n")


def guard(allowed: list[str]) -> None:
    """From now on this process connects to nothing but what callbacks may be sent to."""
    from django.conf import settings

    settings.configure(CALLBACKS_ALLOWED=allowed)
    from delivery import addresses

    connect, look_up = socket.socket.connect, socket.getaddrinfo
    of_allowed_names: dict[str, str] = {}

    def checked_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        found = look_up(host, *args, **kwargs)
        if str(host).lower().rstrip(".") in addresses.allowed().names:
            of_allowed_names.update((str(each[4][0]), str(host)) for each in found)
        return found

    def checked_connect(self: socket.socket, address: Any) -> None:
        if self.family not in (socket.AF_INET, socket.AF_INET6):
            raise Refused("nothing is sent to a socket of this host")
        try:
            name = of_allowed_names.get(address[0], address[0])
            addresses.refuse_addresses(name, [address[0].partition("%")[0]])
        except (addresses.Refused, ValueError) as refused:
            refusals.append(str(refused))
            raise Refused(str(refused)) from None
        connect(self, address)

    def no_connect(self: socket.socket, address: Any) -> int:
        raise Refused("not used here")

    socket.getaddrinfo = checked_look_up
    socket.socket.connect = checked_connect  # type: ignore[method-assign,assignment]
    socket.socket.connect_ex = no_connect  # type: ignore[method-assign,assignment]


refusals: list[str] = []


def send(order: dict[str, Any]) -> str | None:
    """Send `title` and `body` to `url`, as `type`: in parts, where a service takes less at once. Returns why it was not
    sent, perhaps with the URL; None: it was."""
    import apprise

    complaints = Complaints()
    logging.getLogger("apprise").addHandler(complaints)
    asset = apprise.AppriseAsset(
        app_id="Backup scheduler", app_desc="Backup scheduler", app_url="", secure_logging=True
    )
    # one URL: `Apprise.add` would take several in one text, of which the first alone was looked at
    service = apprise.Apprise.instantiate(order["url"], asset=asset)
    if service is None:
        return "Apprise cannot read the URL: is a part of it missing?"
    if service.overflow_mode == apprise.OverflowMode.UPSTREAM:
        service.overflow_mode = apprise.OverflowMode.SPLIT
    service.send = bounded(service.send)  # type: ignore[method-assign]
    sender, body = apprise.Apprise(service, asset=asset), cut(order["body"], MOST_PARTS * (service.body_maxlen - TITLE))
    if sender.notify(title=order["title"], body=body, notify_type=order["type"], body_format="text"):
        return None
    return "; ".join(dict.fromkeys([*refusals, *complaints.lines])) or "Apprise gave no reason"


def cut(body: str, longest: int) -> str:
    return body if len(body) <= longest else f"{body[:longest]}\n… and more: the list of alerts has the rest."


def bounded(send: Callable[..., bool]) -> Callable[..., bool]:
    """`send`, which fails when what it is answered does not fit into the memory."""

    def send_bounded(*args: Any, **kwargs: Any) -> bool:
        try:
            return send(*args, **kwargs)
        except MemoryError:
            refusals.append("it answers without end")
            return False

    return send_bounded


class Complaints(logging.Handler):
    """What Apprise says of a failure: only its log has that."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
