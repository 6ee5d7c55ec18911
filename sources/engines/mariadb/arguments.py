"""What MariaDB's and MySQL's client programs are given. Pure.

All of a connection stands in an option file, which goes to the program as a descriptor, without a name: arguments can
be read by other accounts, and so can, on some systems, an environment. No other option file is read, so none of the
worker's account adds a plugin, a host or a password. What only some of the programs know is `loose-`.
"""

import ssl
from collections.abc import Mapping
from typing import Any

from sources.engines.base import SourceSpec
from sources.engines.cleartext import NO_FILE, is_local

PORT = 3306
LONGEST_ROW = "--max-allowed-packet=1G"
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\b": r"\b"})
OF_MYSQL = {"loose-set-gtid-purged": "OFF", "loose-column-statistics": "0"}
"""What mysqldump writes otherwise needs a superuser where it is restored, or a server of its own version."""
DUMPED = (
    "--single-transaction", "--quick", "--routines", "--events", "--triggers", "--hex-blob", "--no-tablespaces",
    "--default-character-set=utf8mb4", LONGEST_ROW,
)  # fmt: skip
"""Of mariadb-dump: one moment of all tables that know transactions, and all that belongs to a database."""
CLIENT = (
    "--batch", "--skip-column-names", "--binary-mode", "--local-infile=0", "--default-character-set=utf8mb4",
    LONGEST_ROW,
)  # fmt: skip
"""Of mariadb. In binary mode it knows no commands of its own, as `system` and `source`, in what it is given; without
local files no server, and no dump, has it send one."""


def options_of(source: SourceSpec) -> str:
    """The option file of a connection to `source`."""
    given: dict[str, str] = {"user": str(source.options["user"]), "password": source.secret or ""}
    if source.address.startswith("/"):
        given |= {"protocol": "socket", "socket": source.address}
    else:
        given |= {"protocol": "tcp", "host": source.address, "port": str(source.port or PORT)}
    given |= _encryption(source.address, source.options) | OF_MYSQL
    return "[client]\n" + "".join(f'{name}="{value.translate(ESCAPES)}"\n' for name, value in given.items())


def needs_encryption(source: SourceSpec) -> bool:
    """Whether a connection without TLS is refused."""
    return mode_of(source.address, source.options) not in ("disable", "prefer")


def mode_of(address: str, options: Mapping[str, Any]) -> str:
    """As libpq calls it: its `sslmode`, or what is usual."""
    return str(options.get("sslmode") or ("prefer" if is_local(address) else "require"))


def _encryption(address: str, options: Mapping[str, Any]) -> dict[str, str]:
    mode = mode_of(address, options)
    is_verified = mode == "verify-full"
    found = {"loose-ssl": "0"} if mode == "disable" else {"loose-ssl": "1"}
    found["loose-ssl-verify-server-cert"] = "1" if is_verified else "0"
    found["loose-ssl-mode"] = {"disable": "DISABLED", "require": "REQUIRED", "verify-full": "VERIFY_IDENTITY"}.get(
        mode, "PREFERRED"
    )
    if is_verified:
        certificates = str(options.get("sslrootcert", "system"))
        found["ssl-ca"] = (ssl.get_default_verify_paths().cafile or "") if certificates == "system" else certificates
    elif not address.startswith("/"):
        # the one way to prove a password that all programs have built in shows it to no server; others are plugins.
        # On loopback, too: any account may listen there while the server is down
        found["plugin-dir"] = NO_FILE
    return found
