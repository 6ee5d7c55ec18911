r"""Plays a dump of PostgreSQL as SQL: a program of its own, which can be killed. Standard library only.

    python -I -S playing.py PG_RESTORE ARGUMENT… -- PSQL ARGUMENT…

pg_restore writes SQL, psql runs it. The settings at its head that servers below that pg_restore do not know are left
out: one of them would end a transaction before it began. Where the dump cannot be read to its end, psql is killed
before it commits what it got.
"""

import secrets
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj

NEW_SETTINGS = (b"transaction_timeout",)
"""Which pg_restore sets, and servers below 17 do not know."""
HEAD_BYTES = 2_000
PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__)))


def command(pg_restore: tuple[str, ...], psql: tuple[str, ...], *options: str) -> tuple[str, ...]:
    r"""The argv that plays it, up to its first error. `options`: more of psql.

    psql takes no command of its own from a dump (`\!` runs programs): the key that ends this is known to nobody.
    """
    key = f"--restrict-key={secrets.token_hex(16)}"
    usual = ("--no-psqlrc", "--quiet", "--no-password", "--output=/dev/null", "--set=ON_ERROR_STOP=1")
    return (*PROGRAM, *pg_restore, "--file=-", key, "--", *psql, *usual, *options, "--single-transaction", "--file=-")


def without_new_settings(head: bytes) -> bytes:
    """The beginning of what pg_restore writes, with its new settings as comments."""
    for each in NEW_SETTINGS:
        head = head.replace(b"\nSET " + each, b"\n-- SET " + each, 1)
    return head


def main(arguments: list[str]) -> int:
    cut = arguments.index("--")
    with (
        subprocess.Popen(arguments[:cut], stdout=subprocess.PIPE) as reading,
        subprocess.Popen(arguments[cut + 1 :], stdin=subprocess.PIPE) as playing,
    ):
        assert reading.stdout  # noqa: S101
        assert playing.stdin  # noqa: S101
        with suppress(BrokenPipeError):  # psql has ended, at an error
            playing.stdin.write(without_new_settings(reading.stdout.read(HEAD_BYTES)))
            copyfileobj(reading.stdout, playing.stdin, 2**16)
            if reading.wait():
                playing.kill()
        reading.stdout.close()
        with suppress(BrokenPipeError):
            playing.stdin.close()
    return playing.returncode or reading.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) and 1)
