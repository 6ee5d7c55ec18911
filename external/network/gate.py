"""The one way out for an rclone that speaks HTTP: a SOCKS5 proxy (RFC 1928) on loopback that connects to the servers of
its source and its repository, and to nothing else.

rclone follows redirects and has no option against it. A share could lead it to any address that the worker reaches and
have the answer copied, and rclone sends the password along to another port of the share's host. So it asks the gate for
each connection, including those to loopback (`--http-proxy`; proxies of the environment are not used for that). The
gate does not look at the data: it does not distinguish http and https, and a redirect within the server is a request
like any other.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from ipaddress import ip_address

from external.network import contact
from external.public import is_public
from external.special_addresses import GuardedAddress

READ_BYTES = 2**18
IPV4, NAME, IPV6 = 1, 3, 4
DONE, GUARDED, NOT_ALLOWED, UNREACHABLE, REFUSED = 0, 1, 2, 4, 5
"""Replies of RFC 1928, section 6; `storage/places/servers.py` knows rclone's texts for them."""
RESET = struct.pack("ii", 1, 0)

Server = tuple[str, int]
PUBLIC: Server = ("*", 0)
"""An entry among servers that stands for each one whose addresses are all public."""
ANY_PORT = 0
"""The port of a server whose data come over separate connections, such as FTP."""


@contextmanager
def gate_to(servers: Collection[Server], connect_timeout: float) -> Iterator[str]:
    """Open a gate to `servers`, each a host and a port, while the block lasts. Yields the proxy's URL.

    `connect_timeout`: seconds for a connection to one of them, including the look-up of its name.

    Raises: OSError if this process has no socket left.
    """
    gate = _GateServer(frozenset((_spelled(host), port) for host, port in servers), connect_timeout)
    loop = asyncio.new_event_loop()
    with closing(loop), socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        serving = loop.create_task(gate.serve(listening))
        thread = threading.Thread(target=loop.run_until_complete, args=(serving,), name="gate", daemon=True)
        thread.start()
        try:
            yield "socks5://{}:{}".format(*listening.getsockname())
        finally:
            loop.call_soon_threadsafe(serving.cancel)
            thread.join()


class _GateServer:
    def __init__(self, servers: frozenset[Server], connect_timeout: float) -> None:
        self._servers, self._connect_timeout = servers, connect_timeout
        self._reached = set[str]()
        """Addresses of servers at any port: they may name themselves by these."""

    async def serve(self, listening: socket.socket) -> None:
        """Let the program pass until this is cancelled."""
        loop = asyncio.get_running_loop()
        with suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as passing:
                failed = loop.create_future()
                loop.add_reader(listening, self._admit, listening, passing, failed)
                try:
                    await failed
                finally:
                    loop.remove_reader(listening)

    def _admit(self, listening: socket.socket, passing: asyncio.TaskGroup, failed: asyncio.Future[None]) -> None:
        """Accept a connection at once: `sock_accept` loses the one that it has accepted as it is cancelled."""
        try:
            near, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if not failed.done():
                failed.set_exception(error)
            return
        near.setblocking(False)
        task = passing.create_task(self._pass(near))
        task.add_done_callback(lambda _: near.close())  # also where it was cancelled before it began

    async def _pass(self, near: socket.socket) -> None:
        with near, suppress(OSError, ValueError):
            reply, far = await self._connect(*await _asked_for(near))
            with far or nullcontext():
                await _send(near, bytes((5, reply, 0, IPV4)) + bytes(6))
                if far:
                    await _relay(near, far)

    async def _connect(self, host: str, port: int) -> tuple[int, socket.socket | None]:
        at_any_port = (_spelled(host), ANY_PORT) in self._servers or host in self._reached
        is_named = at_any_port or (_spelled(host), port) in self._servers
        if not is_named and PUBLIC not in self._servers:
            return NOT_ALLOWED, None
        try:
            async with asyncio.timeout(self._connect_timeout):
                addresses = await contact.addresses_of(host)
                if not (is_named or all(is_public(ip_address(each)) for each in addresses)):
                    return NOT_ALLOWED, None
                far = await contact.first_of(addresses, partial(_dial, port))
                self._reached |= {far.getpeername()[0]} if at_any_port else set()
                return DONE, far
        except ConnectionRefusedError:
            return REFUSED, None
        except GuardedAddress:
            return GUARDED, None
        except OSError:  # including TimeoutError
            return UNREACHABLE, None


async def _dial(port: int, address: str) -> socket.socket:
    far = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        far.setblocking(False)
        await asyncio.get_running_loop().sock_connect(far, (address, port))
    except BaseException:
        far.close()
        raise
    return far


async def _asked_for(near: socket.socket) -> Server:
    """Greet the program; return the host and port that it wants to connect to. Raises: OSError, ValueError."""
    _, methods = await _receive(near, 2)
    await _receive(near, methods)
    await _send(near, b"\5\0")
    *_, kind = await _receive(near, 4)
    if kind == NAME:
        host = (await _receive(near, (await _receive(near, 1))[0])).decode("ascii")
    else:
        host = str(ip_address(await _receive(near, 4 if kind == IPV4 else 16)))
    return host, int.from_bytes(await _receive(near, 2))


async def _receive(near: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += (more := await asyncio.get_running_loop().sock_recv(near, size - len(received)))
        if not more:
            raise ConnectionError
    return received


async def _send(near: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(near, data)


async def _relay(near: socket.socket, far: socket.socket) -> None:
    """Copy both ways until either side ends. A connection that a server breaks off is broken off for the program, too,
    never ended normally.
    """
    for each in (near, far):  # else the end of an answer waits for its beginning to be confirmed: up to 40 ms
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    there, back = _Flow(near, far), _Flow(far, near)
    try:
        await asyncio.wait((there.ended, back.ended), return_when=asyncio.FIRST_COMPLETED)
        if back.ended.done() and back.ended.result():
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    finally:
        there.close()
        back.close()


class _Flow:
    """One direction of a connection, which flows until it is closed. `ended`: has None once its source has ended and
    everything was sent on, or the error by which either side broke off.

    Its callback stays with the event loop: a task that waits again for each piece takes twice the processor time.
    """

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source, self._target = source, target
        self._loop = asyncio.get_running_loop()
        self._room = memoryview(bytearray(READ_BYTES))
        self._left = self._room[:0]
        """The part of the last piece that its target has not taken."""
        self.ended: asyncio.Future[OSError | None] = self._loop.create_future()
        self._loop.add_reader(source, self._read)

    def close(self) -> None:
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._target)

    def _read(self) -> None:
        try:
            size = self._source.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
            return
        if not size:
            self._end(None)
        elif not self._is_sent(self._room[:size]):
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._target, self._send_rest)

    def _send_rest(self) -> None:
        if self._is_sent(self._left):
            self._loop.remove_writer(self._target)
            self._loop.add_reader(self._source, self._read)

    def _is_sent(self, data: memoryview) -> bool:
        """Send data. Returns False if some is left over."""
        try:
            self._left = data[self._target.send(data) :]
        except BlockingIOError:
            self._left = data
        except OSError as error:
            self._end(error)
        return not self._left

    def _end(self, error: OSError | None) -> None:
        self.close()
        if not self.ended.done():
            self.ended.set_result(error)


def _spelled(host: str) -> str:
    """A host name or IP address in the one form in which it can be compared."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host.lower() if host.isascii() else host.encode("idna").decode()
