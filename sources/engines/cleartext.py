"""A source's password never crosses a network in clear, unless its options say so.

Who holds the address of a source, or a place on the way, would read it: a PostgreSQL server may ask for a cleartext
password, and WebDAV and S3 over http send theirs, or what is derived from it, with each request.
"""

import ipaddress
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

ALLOWED = "allowed"
AUTHENTICATIONS = ("scram-sha-256", "md5")
NO_FILE = f"{os.devnull}/none"
"""Of the device itself libpq would complain."""
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def refusal(address: str, secret: str | None, options: Mapping[str, Any]) -> str:
    """Why the password of a WebDAV share or S3 bucket at `address` (a URL) may not be sent; empty: it may."""
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


def libpq_parameters(secret: str | None, options: Mapping[str, Any]) -> dict[str, str]:
    """How libpq (16 or later; an older one refuses the parameter) may answer a server that asks who we are.

    With a secret the server has to prove that it knows it (SCRAM, RFC 5802), so none else gets anything of it. Servers
    that ask for nothing, or go by the account, are for sources without a secret: they get no password of the worker's
    account, which libpq would look up in `~/.pgpass`.
    """
    found = {"require_auth": str(options.get("auth", AUTHENTICATIONS[0]))} if secret else {}
    found["passfile"] = NO_FILE
    return found | {name: str(options[name]) for name in ("sslmode", "sslrootcert") if name in options}


def check_options(options: Mapping[str, Any]) -> None:
    """Raises: ValueError for a value that one of these options does not take."""
    for name, known in (("auth", AUTHENTICATIONS), ("sslmode", SSL_MODES), ("plain_http", (ALLOWED,))):
        if name in options and options[name] not in known:
            raise ValueError(f"{name} is {options[name]!r}; it takes {', '.join(known)}")
    certificate = str(options.get("sslrootcert", "/"))
    if certificate != "system" and not certificate.startswith("/"):
        raise ValueError('sslrootcert must be "system", or the absolute path of a file of certificates')


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
