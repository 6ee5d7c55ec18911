"""A source's password never crosses a network in clear, unless the source's options allow it.

Anyone who holds the address of a source, or a place on the way, would read it: a PostgreSQL server may ask for a
cleartext password, and WebDAV and S3 over http send theirs, or something derived from it, with each request.
"""

import ipaddress
import os
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

from storage.places import providers

ALLOWED, PLAINTEXT = providers.ALLOWED, providers.PLAINTEXT
AUTHENTICATIONS = ("scram-sha-256", "md5")
NO_FILE = f"{os.devnull}/none"
WITHOUT_TICKET = {"KRB5CCNAME": f"FILE:{NO_FILE}", "KRB5_CLIENT_KTNAME": f"FILE:{NO_FILE}"}
"""Parts of the environment of a PostgreSQL program."""
"""libpq would complain about the device itself."""
IMPLICIT, STARTTLS, NONE = TLS = ("implicit", "starttls", "none")
"""The encryption of a connection with an IMAP server: from its beginning, by a command, or none."""
PASSWORD, XOAUTH2 = IMAP_AUTHENTICATIONS = ("password", "xoauth2")
MARIADB_SSL_MODES = ("disable", "require", "verify-full")
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def refusal(address: str, secret: str | None, options: Mapping[str, Any]) -> str:
    """The reason why the password of a WebDAV share or S3 bucket at `address` (a URL) may not be sent;
    empty if it may.
    """
    parts = urlsplit(address)
    if (
        not secret
        or parts.scheme != "http"
        or _is_loopback(parts.hostname or "")
        or options.get("plain_http") == ALLOWED
    ):
        return ""
    return (
        "sends its password in clear: use https, or accept that with the option "
        f'"plain_http": "{ALLOWED}" if everything on the way is yours'
    )


def refusal_of_remote(remote: Mapping[str, Any], secrets: Collection[str]) -> str:
    """The same for a remote of a source or repository; `secrets` names its secret options."""
    if not secrets or remote.get(PLAINTEXT) == ALLOWED:
        return ""
    encrypts = any(str(remote.get(name, "")).lower() == "true" for name in ("tls", "explicit_tls"))
    in_clear = [
        f"{name} {value}"
        for name, value in remote.items()
        if str(value).startswith("http://") and not _is_loopback(urlsplit(str(value)).hostname or "")
    ]
    if remote.get("type") == "ftp" and not encrypts and not _is_loopback(str(remote.get("host", ""))):
        in_clear = ["FTP without TLS (tls, explicit_tls)"]
    if not in_clear:
        return ""
    return f'sends its password in clear ({in_clear[0]}): encrypt it, or accept that with "{PLAINTEXT}": "{ALLOWED}"'


def libpq_parameters(secret: str | None, options: Mapping[str, Any]) -> dict[str, str]:
    """Parameters that limit how libpq (16 or later; an older one refuses the parameter) may answer a server that asks
    who we are.

    With a secret the server has to prove that it knows it (SCRAM, RFC 5802), so no other server learns anything about
    it. Servers that ask for nothing, or identify the account at their socket, are for sources without a secret. No
    server gets anything else of the worker's account: no password from `~/.pgpass`, no certificate from
    `~/.postgresql`, no Kerberos ticket (`WITHOUT_TICKET` for programs).
    """
    found = {"sslcert": NO_FILE, "gssencmode": "disable", "passfile": NO_FILE}
    if secret:
        found["require_auth"] = str(options.get("auth", AUTHENTICATIONS[0]))
    return found | {name: str(options[name]) for name in ("sslmode", "sslrootcert") if name in options}


def imap_port(options: Mapping[str, Any]) -> int:
    """The usual port of a mailbox with these options."""
    return 993 if imap_is_tls(options) else 143


def imap_is_tls(options: Mapping[str, Any]) -> bool:
    """True if the mailbox's connection is encrypted from its beginning."""
    return bool(options.get("tls", IMPLICIT) == IMPLICIT)


def check_options(options: Mapping[str, Any]) -> None:
    """Check options of an encrypted connection. Raises: ValueError for a value that an option does not take."""
    certificate = str(options.get("sslrootcert", "/"))
    if certificate != "system" and not certificate.startswith("/"):
        raise ValueError('sslrootcert must be "system", or the absolute path of a file of certificates')


def is_local(address: str) -> bool:
    """True if a server is on this host: nothing that is sent to it crosses a network."""
    return address.startswith("/") or _is_loopback(address)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
