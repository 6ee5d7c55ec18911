"""Secrets are kept outside the database: a source names where its password is found.

`env:NAME` is an environment variable of the worker, `file:/path` a file that the worker may read. Neither may be just
any: who may change a source, and chooses the server that it is sent to, would read every file and variable of the
worker. So variables begin with `ENV_PREFIX`, and files lie below one of `settings.SECRETS_DIRECTORIES`.
"""

import os
import re
import stat
from pathlib import Path

from django.conf import settings

from sources.network.bounded_threads import BoundedThreads

ENV_PREFIX = "BACKUP_SECRET_"
REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
LONGEST_SECRET = 65_536
"""Bytes of a secret's file: a private key has a few thousand. /dev/zero has no end."""


PATIENCE_SECONDS = 10.0
"""For a file on a share that does not answer."""

secrets = BoundedThreads("read-secret", 16)
"""Where secrets are read that others must not wait for: a dead share holds one of these threads."""


class SecretNotFound(ValueError):
    """The place that a reference names holds no secret. The message says what to set, never a secret."""


def check_reference(reference: str) -> None:
    """Check that `reference` (not empty) may be used. Reads nothing: the web process may not see the file.

    Raises: ValueError. It never repeats a text of another form, which may be the password itself.
    """
    if not REFERENCE.fullmatch(reference) or re.search(r"[\x00-\x1f\x7f]", reference):
        raise ValueError(
            "must say where the password is found, as env:NAME or file:/path; never write the password itself here"
        )
    where, _, name = reference.partition(":")
    if where == "env" and not name.startswith(ENV_PREFIX):
        raise ValueError(f"{name} is not for sources: name the variable {ENV_PREFIX}…, and set it for the worker")
    if where == "file" and not _is_below(Path(os.path.normpath(name)), settings.SECRETS_DIRECTORIES):
        raise ValueError(_elsewhere(name))


def read_secret(reference: str) -> str | None:
    """Return the secret that `reference` names; None for an empty reference. One newline at its end is cut.

    Raises: SecretNotFound when the reference is not allowed, the variable not set, or the file no readable regular file
    of at most `LONGEST_SECRET` bytes.
    """
    if not reference:
        return None
    try:
        check_reference(reference)
    except ValueError as error:
        raise SecretNotFound(f"the secret {error}") from None
    where, _, name = reference.partition(":")
    if where == "file":
        return _read_file(Path(name))
    if name not in os.environ:
        raise SecretNotFound(f"the environment variable {name} is not set; set it for the worker")
    return os.environ[name]


def read_secret_in_time(reference: str) -> str | None:
    """The same, given up after `PATIENCE_SECONDS`, for a thread that must not hang. Raises: SecretNotFound."""
    try:
        return secrets.call_now(reference, lambda: read_secret(reference), PATIENCE_SECONDS)
    except TimeoutError:
        raise SecretNotFound(
            f"the secret {reference} was not read within {PATIENCE_SECONDS:g} s; is it on a share that does not answer?"
        ) from None


def read_regular_file(path: Path, what: str, longest: int) -> bytes:
    """Raises: SecretNotFound when `path` is no readable regular file of at most `longest` bytes."""
    try:
        with open(path, "rb", buffering=0, opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SecretNotFound(f"{what} {path} is not a regular file; name one")
            content = file.read(longest + 1)
    except OSError as error:
        raise SecretNotFound(f"{what} {path} cannot be read ({error.strerror}); let the worker read it") from error
    if len(content) > longest:
        raise SecretNotFound(f"{what} {path} is longer than {longest:,} bytes; name another one")
    return content


def _read_file(path: Path) -> str:
    content = read_regular_file(path, "the secret file", LONGEST_SECRET)
    if not _is_below(path.resolve(), [directory.resolve() for directory in settings.SECRETS_DIRECTORIES]):
        raise SecretNotFound(f"the secret {_elsewhere(path)}")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SecretNotFound(f"the secret file {path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)  # a FIFO is opened although nothing writes to it


def _is_below(path: Path, directories: list[Path]) -> bool:
    return any(directory in path.parents for directory in directories)


def _elsewhere(path: object) -> str:
    allowed = ", ".join(map(str, settings.SECRETS_DIRECTORIES))
    return f"{path} lies in no directory of secrets ({allowed}); move it there, or set BACKUPSCHED_SECRETS_DIRECTORIES"
