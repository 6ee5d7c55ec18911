"""A session with an IMAP server that is not trusted: Python's imaplib, with bounds and one table of verdicts.

Nothing is changed on the server: folders are examined (EXAMINE), and messages peeked at (BODY.PEEK).
"""

import imaplib
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from engines.addresses import address_of
from engines.base import RunEnded, SourceSpec, Verdict
from engines.cleartext import STARTTLS, XOAUTH2, imap_is_tls, imap_port

MOST_BYTES = 32 * 2**20
"""The most bytes of the answer to one command. A server could send without end, and imaplib holds an answer whole."""
PIECE = 2**16
SYSTEM = "system"
DIGITS = re.compile(rb"\d{1,10}")
"""The digits of a number of 32 bits, such as IMAP's numbers."""
NOT_FOR_NOW = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT)|too many|try again|temporar", re.IGNORECASE)
"""Response codes of RFC 5530 in an answer NO, and the texts of servers without such codes."""
LASTS = re.compile(r"unexpected (tagged )?response|(TLS not supported)")
"""Parts of imaplib's message when it gives up a connection. Any other message is about a server that hung up, or sent
BYE.
"""
NO_STARTTLS = "the server offers no STARTTLS, so no password was sent: check whether it accepts TLS at port 993"
REFUSED = "credentials: check its user and secret; Gmail and Microsoft want an app password, or OAuth"
OAUTH_REFUSED = "access token: it lasts for an hour or so, and has to be one for IMAP and for its user"
NOT_IMAP = "the server there does not speak IMAP: check the address, the port, and the option tls"


class MailboxRefused(Exception):
    """The server answered NO or BAD to a command about a folder or messages. The message is the server's, bounded."""


class _BoundedClient(imaplib.IMAP4):
    """A client that reads no more of an answer than its bound allows."""

    on_bytes: Callable[[int], None] = staticmethod(lambda size: None)
    left = MOST_BYTES

    def _create_socket(self, timeout: float | None) -> socket.socket:
        seconds = timeout or 0.0
        return socket.create_connection((address_of(self.host, self.port, seconds), self.port), seconds)

    def read(self, size: int) -> bytes:
        self._spend(size)
        pieces = []
        while size:
            piece = super().read(min(size, PIECE))
            if not piece:
                break
            size -= len(piece)
            self.on_bytes(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def readline(self) -> bytes:
        line = super().readline()
        self._spend(len(line))
        self.on_bytes(len(line))
        return line

    def _spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise RunEnded(
                Verdict.SOURCE_FAILED, f"the server sends more than {MOST_BYTES:,} bytes as the answer to one command"
            )


class _TlsClient(_BoundedClient, imaplib.IMAP4_SSL):
    def _create_socket(self, timeout: float | None) -> socket.socket:
        context: ssl.SSLContext = self.ssl_context
        return context.wrap_socket(super()._create_socket(timeout), server_hostname=self.host)


class Session:
    """A session that is logged in. Each call may raise RunEnded, and MailboxRefused.

    `on_bytes` gets the number of bytes that came, as they come.
    """

    def __init__(self, client: _BoundedClient, on_bytes: Callable[[int], None]) -> None:
        self._client = client
        self._client.on_bytes = on_bytes

    def folders(self) -> list[Any]:
        """The lines of a LIST response, as imaplib returns them."""
        return self._ask(self._client.list)

    def examine(self, raw: bytes) -> tuple[int, int]:
        """Enter a folder to read it. Returns its UIDVALIDITY, and the number of its messages."""
        name: Any = quoted(raw)  # imaplib takes bytes
        [number, *_] = self._ask(lambda: self._client.select(name, readonly=True))
        _, [validity, *_] = self._client.response("UIDVALIDITY")
        if not all(isinstance(each, bytes) and DIGITS.fullmatch(each) for each in (validity, number)):
            raise MailboxRefused("its server gives it no UIDVALIDITY: its messages have no lasting numbers")
        return int(validity), int(number)

    def fetch(self, numbers: str, items: str) -> list[Any]:
        """Run FETCH by sequence numbers, during which no number changes its message (RFC 3501, 7.4.1)."""
        return self._ask(lambda: self._client.fetch(numbers, items))

    def fetch_uids(self, uids: str, items: str) -> list[Any]:
        return self._ask(lambda: self._client.uid("FETCH", uids, items))

    def _ask(self, command: Callable[[], tuple[str, list[Any]]]) -> list[Any]:
        self._client.left = MOST_BYTES
        with _judged(), _in_ascii():
            try:
                answer, lines = command()
            except imaplib.IMAP4.abort:
                raise
            except imaplib.IMAP4.error as error:  # BAD
                answer, lines = "BAD", [str(error).encode()]
            if answer != "OK":
                self._client.response("FETCH")  # the answer that came before it
                text = clean(lines)
                if NOT_FOR_NOW.search(text):
                    raise RunEnded(Verdict.UNAVAILABLE, f"the server is not ready: {text}")
                raise MailboxRefused(text)
            return lines


@contextmanager
def session_with(source: SourceSpec, connect: float, idle: float, on_bytes: Callable[[int], None]) -> Iterator[Session]:
    """Connect and log in. `connect`, `idle`: seconds, for a connection and for each answer. Raises: RunEnded."""
    with _judged():
        with _in_ascii():
            client = _connected(source, connect)
        try:
            with _in_ascii():
                _log_in(client, source)
            client.sock.settimeout(idle)
            yield Session(client, on_bytes)
        finally:
            with suppress(OSError):
                client.shutdown()  # a LOGOUT could wait for an answer


def quoted(name: bytes) -> bytes:
    return b'"' + name.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def clean(lines: list[Any]) -> str:
    """The lines that a server sent, as one printable line."""
    text = " ".join(each.decode(errors="replace") for each in lines if isinstance(each, bytes))
    return "".join(each if each.isprintable() else " " for each in text)[:300]


def _context(source: SourceSpec) -> ssl.SSLContext:
    file = source.options.get("sslrootcert", SYSTEM)
    try:
        return ssl.create_default_context(cafile=None if file == SYSTEM else str(file))
    except OSError as error:  # an SSLError is one, too
        text = f"sslrootcert {file} holds no certificates that can be read: {error.strerror or error}"
        raise RunEnded(Verdict.SOURCE_FAILED, text) from None


def _connected(source: SourceSpec, seconds: float) -> _BoundedClient:
    options = source.options
    host, port = source.address, source.port or imap_port(options)
    if imap_is_tls(options):
        return _TlsClient(host, port, ssl_context=_context(source), timeout=seconds)
    client = _BoundedClient(host, port, timeout=seconds)
    if options["tls"] == STARTTLS:
        client.starttls(_context(source))
    return client


def _log_in(client: _BoundedClient, source: SourceSpec) -> None:
    user, secret = str(source.options["user"]), source.secret or ""
    if re.search(r"[\r\n\0]", secret):
        raise RunEnded(Verdict.SOURCE_FAILED, "its secret contains a line break, which a password must not")
    by_token = source.options.get("auth") == XOAUTH2
    try:
        if by_token:
            client.authenticate("XOAUTH2", lambda _: f"user={user}\1auth=Bearer {secret}\1\1".encode())
        elif (user + secret).isascii():
            client.login(quoted(user.encode()).decode(), secret)
        else:  # LOGIN cannot carry other letters (RFC 2595, 6)
            client.authenticate("PLAIN", lambda _: f"\0{user}\0{secret}".encode())
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error as error:
        text = clean([each if isinstance(each, bytes) else str(each).encode() for each in error.args])
        if NOT_FOR_NOW.search(text):
            raise RunEnded(Verdict.UNAVAILABLE, f"the server is not ready: {text}") from None
        refused = OAUTH_REFUSED if by_token else REFUSED
        raise RunEnded(Verdict.SOURCE_FAILED, f"the source refused the {refused} ({text})") from None


@contextmanager
def _in_ascii() -> Iterator[None]:
    """Turn a failure of imaplib to decode into its error: it decodes tags and some answers as ASCII, whatever a server
    sends.
    """
    try:
        yield
    except UnicodeError:
        raise imaplib.IMAP4.error("it sends text that is not ASCII") from None


@contextmanager
def _judged() -> Iterator[None]:
    """Turn an error of the connection into a verdict."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        text = f"the server's certificate is not trusted: {error.verify_message}; name who signs it in sslrootcert"
        raise RunEnded(Verdict.SOURCE_FAILED, text) from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        raise RunEnded(Verdict.UNAVAILABLE, "the source does not answer: it hung up") from None
    except ssl.SSLError as error:
        text = f"no encrypted connection could be made: {error.reason}; check the port, and the option tls"
        raise RunEnded(Verdict.SOURCE_FAILED, text) from None
    except OSError as error:
        raise RunEnded(Verdict.UNAVAILABLE, f"the source does not answer: {error.strerror or error}") from None
    except imaplib.IMAP4.error as error:
        text = clean([str(error).encode()])
        if lasts := LASTS.search(text):
            # the answer is not quoted: an account that may change an address would read the banners of a network
            raise RunEnded(Verdict.SOURCE_FAILED, NO_STARTTLS if lasts[2] else NOT_IMAP) from None
        if isinstance(error, imaplib.IMAP4.abort) or " BYE " in text:
            raise RunEnded(Verdict.UNAVAILABLE, f"the source does not answer: it hung up ({text})") from None
        raise RunEnded(Verdict.SOURCE_FAILED, f"the server does not follow IMAP: {text}") from None
