"""The process that sends one message by Apprise (`external.processes.orders`): Apprise may hang, and has no rules about
the servers that it may connect to.

Each connection here, also after redirects and for any name, is to an address that is public or allowed: the check is of
the very address that the system connects to, so no name can change its meaning in between.
"""

import logging
import signal
import socket
from collections.abc import Callable
from typing import Any

from external.processes.serving import Program, serve

LONGEST_SECONDS = 60
"""Seconds after which this process ends if its worker is gone."""
LARGEST_MEMORY = 256 << 20
"""Bytes. Apprise keeps every answer in memory, whatever its size; without answers it needs a sixth of this."""
MOST_PARTS = 3
"""The most receivers of a message. Apprise waits five seconds between two of them, and a pager calls each."""
TITLE = 300
"""Characters: some services take the title as a part of the text."""


PROGRAM = Program(__name__, {"send": __name__})


class NotSentThere(OSError):
    """An address that nothing is sent to. The message is written for users."""


def main() -> None:
    signal.alarm(LONGEST_SECONDS)
    serve(PROGRAM)


def guard(allowed: list[str]) -> None:
    """Let this process connect only to addresses to which callbacks may be sent."""
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
            raise NotSentThere("alerts are not sent to a socket on this host")
        try:
            name = of_allowed_names.get(address[0], address[0])
            addresses.refuse_addresses(name, [address[0].partition("%")[0]])
        except (addresses.AddressRefused, ValueError) as refused:
            refusals.append(str(refused))
            raise NotSentThere(str(refused)) from None
        connect(self, address)

    def no_connect(self: socket.socket, address: Any) -> int:
        raise NotSentThere("not used here")

    socket.getaddrinfo = checked_look_up
    socket.socket.connect = checked_connect  # type: ignore[method-assign,assignment]
    socket.socket.connect_ex = no_connect  # type: ignore[method-assign,assignment]


refusals: list[str] = []


def send(url: str, title: str, body: str, type: str, allowed: list[str]) -> str:
    """Send a message, in parts where a service takes less at once. `allowed`: as `guard` takes it. Returns the reason
    why it was not sent, perhaps with the URL; empty if it was."""
    guard(allowed)
    import apprise

    complaints = Complaints()
    logging.getLogger("apprise").addHandler(complaints)
    asset = apprise.AppriseAsset(
        app_id="Backup scheduler", app_desc="Backup scheduler", app_url="", secure_logging=True
    )
    # one URL: `Apprise.add` would take several in one text, of which the first alone was looked at
    service = apprise.Apprise.instantiate(url, asset=asset)
    if service is None:
        return "Apprise cannot read the URL: is a part of it missing?"
    if service.overflow_mode == apprise.OverflowMode.UPSTREAM:
        service.overflow_mode = apprise.OverflowMode.SPLIT
    service.send = bounded(service.send)  # type: ignore[method-assign]
    sender, shorter = apprise.Apprise(service, asset=asset), cut(body, MOST_PARTS * (service.body_maxlen - TITLE))
    if sender.notify(title=title, body=shorter, notify_type=type, body_format="text"):
        return ""
    return "; ".join(dict.fromkeys([*refusals, *complaints.lines])) or "Apprise gave no reason"


def cut(body: str, longest: int) -> str:
    return body if len(body) <= longest else f"{body[:longest]}\n… and more: the list of alerts has the rest."


def bounded(send: Callable[..., bool]) -> Callable[..., bool]:
    """`send`, changed so that it fails if an answer does not fit into the memory."""

    def send_bounded(*args: Any, **kwargs: Any) -> bool:
        try:
            return send(*args, **kwargs)
        except MemoryError:
            refusals.append("it answers without end")
            return False

    return send_bounded


class Complaints(logging.Handler):
    """Apprise's own text about a failure: it is only in its log."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
