r"""Plays a dump of PostgreSQL as SQL: a separate program, which can be killed. Standard library only.

    python -I -S playing.py ACCOUNT PG_RESTORE ARGUMENT… -- PSQL ARGUMENT…

pg_restore writes SQL, psql runs it, both as ACCOUNT, `uid:gid`, or if it is empty, as the account of this program,
which the other account need not reach. Settings that servers of another version do not know are left out: a single one
would end the transaction. pg_restore writes that transaction, too: if it does not complete, or this program is killed,
psql gets no COMMIT.
"""

import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

NEW_SETTINGS = ("transaction_timeout",)
"""Settings that pg_restore makes, and servers below 17 do not know."""
UNKNOWN = re.compile(rf"SET (?:{'|'.join(NEW_SETTINGS)}) = .*;\n".encode())
COUNTER = re.compile(rb"(ALTER (?:FOREIGN )?TABLE ONLY .* SET \()([^()]*, )?pg_attver=\d++(?:, )?+([^()]*+)(\);?\s*)")
"""An option of columns that some versions count for themselves, and others do not know, next to options
that users set.
"""
COPY, END = re.compile(rb"COPY .* FROM stdin;\n"), b"\\.\n"
PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__)))


def command(
    pg_restore: tuple[str, ...], psql: tuple[str, ...], *options: str, account: tuple[int, int] | None = None
) -> tuple[str, ...]:
    r"""The argv that plays a dump, up to its first error. `options`: other options of psql.

    psql accepts no meta-command from a dump (`\!` runs programs): no one knows the key that ends this restriction.
    """
    read = ("--single-transaction", "--file=-", f"--restrict-key={new_key()}")
    usual = ("--no-psqlrc", "--quiet", "--no-password", "--output=/dev/null", "--set=ON_ERROR_STOP=1", "--file=-")
    user = ":".join(map(str, account or ()))
    return (*PROGRAM, user, *pg_restore, *read, "--", *psql, *usual, *options)


def new_key() -> str:
    return secrets.token_hex(16)


def is_new_setting(statement: str) -> bool:
    return statement.startswith(tuple(f"SET {each} " for each in NEW_SETTINGS))


def without_counter(statement: bytes) -> bytes:
    """A statement as all versions know it, or empty if nothing is left."""
    if not (found := COUNTER.fullmatch(statement)):
        return statement
    options = ((found[2] or b"") + found[3]).removesuffix(b", ")
    return found[1] + options + found[4] if options else b""


def without_unknown(sql: IO[bytes]) -> Iterator[bytes]:
    """The lines of SQL without these settings. Rows stay as they are."""
    in_rows = False
    for line in sql:
        if in_rows:
            in_rows = line != END
        elif UNKNOWN.fullmatch(line) or not (line := without_counter(line)):
            continue
        else:
            in_rows = COPY.fullmatch(line) is not None
        yield line


def main(arguments: list[str]) -> int:
    account, *arguments = arguments
    cut = arguments.index("--")
    as_account: dict[str, Any] = {"close_fds": False}
    if account:
        user, _, group = account.partition(":")
        as_account |= {"user": int(user), "group": int(group), "extra_groups": []}
    with (
        subprocess.Popen(arguments[:cut], stdout=subprocess.PIPE, **as_account) as reading,
        subprocess.Popen(arguments[cut + 1 :], stdin=subprocess.PIPE, **as_account) as playing,
    ):
        assert reading.stdout  # noqa: S101
        assert playing.stdin  # noqa: S101
        with suppress(BrokenPipeError):  # psql has ended, because of an error
            playing.stdin.writelines(without_unknown(reading.stdout))
        reading.stdout.close()
        with suppress(BrokenPipeError):
            playing.stdin.close()
    return playing.returncode or reading.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) and 1)
