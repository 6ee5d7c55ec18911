"""The connection of MariaDB's programs to a server.

All of it is in an option file, which is passed to the program as a descriptor, without a name: other accounts can read
arguments, and on some systems the environment. No other option file is read, so none in the worker's account adds a
plugin, a host or a password. Options that only some programs know begin with `loose-`.
"""

import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engines.addresses import address_of, name_of
from engines.base import SourceSpec
from engines.cleartext import NO_FILE, is_local

PORT = 3306
CONNECT_SECONDS = 10.0
"""The limit for each address of a server that has several."""
VERIFIED = "verify-full"
LONGEST_ROW = "--max-allowed-packet=1G"
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\b": r"\b"})
OF_MYSQL = {"loose-set-gtid-purged": "OFF", "loose-column-statistics": "0"}
"""Options of mysqldump. Without them its output needs a superuser where it is restored, or a server of the same
version.
"""
CLIENT = (
    "--batch", "--skip-column-names", "--binary-mode", "--local-infile=0", "--default-character-set=utf8mb4",
    LONGEST_ROW,
)  # fmt: skip
"""Options of mariadb. In binary mode it accepts no client commands, such as `system` and `source`, in its input;
without local files no server, and no dump, can make it send one.
"""
NO_HOME = {"HOME": "/dev/null/none"}
"""MySQL's programs also read `~/.mylogin.cnf`, regardless of the given option file."""


@contextmanager
def option_file(source: SourceSpec) -> Iterator[tuple[str, int]]:
    """The argument that names the option file of `source`, which must be the first one, and its descriptor, which the
    program inherits.
    """
    with tempfile.TemporaryFile() as file:
        file.write(_options_of(source).encode())
        file.flush()
        yield f"--defaults-file=/dev/fd/{file.fileno()}", file.fileno()


def _options_of(source: SourceSpec) -> str:
    given: dict[str, str] = {"user": str(source.options["user"]), "password": source.secret or ""}
    if source.address.startswith("/"):
        given |= {"protocol": "socket", "socket": source.address}
    else:
        port = source.port or PORT
        host = address_of(source.address, port, CONNECT_SECONDS)
        if _mode_of(source.address, source.options) == VERIFIED:
            host = name_of(source.address)  # which its certificate must contain, so another server gets nothing
        given |= {"protocol": "tcp", "host": host, "port": str(port)}
    given |= _encryption(source.address, source.options) | OF_MYSQL
    return "[client]\n" + "".join(f'{name}="{value.translate(ESCAPES)}"\n' for name, value in given.items())


def needs_encryption(source: SourceSpec) -> bool:
    """True if a connection without TLS is refused."""
    return _mode_of(source.address, source.options) not in ("disable", "prefer")


def _mode_of(address: str, options: Mapping[str, Any]) -> str:
    """The mode, by libpq's name: the `sslmode` that is set, or the usual one."""
    return str(options.get("sslmode") or ("prefer" if is_local(address) else "require"))


def _encryption(address: str, options: Mapping[str, Any]) -> dict[str, str]:
    mode = _mode_of(address, options)
    is_verified = mode == VERIFIED
    found = {"loose-ssl": "0"} if mode == "disable" else {"loose-ssl": "1"}
    found["loose-ssl-verify-server-cert"] = "1" if is_verified else "0"
    names = {"disable": "DISABLED", "require": "REQUIRED", VERIFIED: "VERIFY_IDENTITY"}
    found["loose-ssl-mode"] = names.get(mode, "PREFERRED")
    if is_verified:
        certificates = str(options.get("sslrootcert", "system"))
        found["ssl-ca"] = (ssl.get_default_verify_paths().cafile or "") if certificates == "system" else certificates
    elif not address.startswith("/"):
        # the only way to prove a password that all programs have built in shows it to no server; others are plugins.
        # It applies on loopback, too: any account may listen there while the server is down
        found["plugin-dir"] = NO_FILE
    return found
