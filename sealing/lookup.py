"""References to passwords: a source names where its password is found; it never holds the password itself.

`stored:NAME` is a secret kept in the database, sealed (`sealing/stored_secrets.py`), `env:NAME` a variable of the
worker's environment, `file:/path` a file that the worker may read. The latter two are restricted: a user who may change
a source, and chooses the server to which the password is sent, could read every file and variable of the worker. So
variables begin with `ENV_PREFIX`, and files must be below one of `settings.SECRETS_DIRECTORIES`.

A file may be on a dead share: it is read in its own thread, with a time limit. A stored secret is read only where the
database may be used: in the caller's thread, or in one of its queue. The module for that is loaded when a stored secret
is used: it takes a sixth of the start of a command that uses none.
"""

import os
import re
import stat
from functools import partial
from pathlib import Path

from django.conf import settings

from external.network.bounded_threads import BoundedThreads
from jobs.worker.database_threads import ask_database
from sealing.references import LONGEST_SECRET, PREFIX, SECRET_NAME

ENV_PREFIX = "BACKUP_SECRET_"
REFERENCE = re.compile(rf"{PREFIX}{SECRET_NAME}|env:[A-Za-z_][A-Za-z0-9_]*|file:/.+")
FORMS = "stored:NAME, env:NAME or file:/path"

PATIENCE_SECONDS = 10.0
"""Seconds for a file on a share that does not answer."""

secrets = BoundedThreads("read-secret", 16)
"""Threads that read secrets, so that others need not wait: a dead share holds one of them."""


class SecretNotFound(ValueError):
    """The place that a reference names holds no secret. The message names the missing setting, never a secret."""


def check_reference(reference: str, what: str = "password") -> None:
    """Check that `reference` (not empty) may be used. Reads nothing: the web process may not see the file. `what`: a
    word for the secret there.

    Raises: ValueError. It never repeats a text of another form, which may be the password itself.
    """
    if not REFERENCE.fullmatch(reference) or re.search(r"[\x00-\x1f\x7f]", reference):
        raise ValueError(f"must say where the {what} is found, as {FORMS}; never write the {what} itself here")
    where, _, name = reference.partition(":")
    if where == "env" and not name.startswith(ENV_PREFIX):
        raise ValueError(f"{name} is not a variable of secrets: name {ENV_PREFIX}…, and set it for the worker")
    if where == "file" and not _is_below(Path(os.path.normpath(name)), settings.SECRETS_DIRECTORIES):
        raise ValueError(_elsewhere(name))


def problem_with_stored(reference: str) -> str:
    """The reason why `reference` cannot be saved, in the transaction that saves it, with what to do: it names a stored
    secret that does not exist. Empty if it can be saved. Every table with such a field calls this, and is in
    `sealing.references.referring`.
    """
    if not (name := _stored_name(reference)):
        return ""
    from sealing import stored_secrets

    return stored_secrets.problem_with(name)


def store_secret(name: str, value: str) -> str:
    """Store a new secret, sealed; returns the reference to it, `stored:NAME`. It is part of the caller's transaction.

    Raises: ValueError, which does not quote the value, if the name is taken (its secret is never overwritten) or
    invalid.
    """
    from sealing import stored_secrets

    return stored_secrets.store(name, value)


def read_secret(reference: str) -> str | None:
    """Return the secret that `reference` names; None for an empty reference. One newline at its end is cut.

    This thread reads a stored secret from the database, as handlers and commands may; a file may take for ever. Raises:
    SecretNotFound when the reference is not allowed, the secret is not stored or cannot be opened, the variable is not
    set, or the file is not a readable regular file of at most `LONGEST_SECRET` bytes; django.db.Error.
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
    if stored := _stored_name(reference):
        from sealing import stored_secrets

        try:
            return stored_secrets.read(stored)
        except stored_secrets.NotStored as error:
            raise SecretNotFound(str(error)) from None
    if name not in os.environ:
        raise SecretNotFound(f"the environment variable {name} is not set; set it for the worker")
    return os.environ[name]


def read_secret_in_time(reference: str) -> str | None:
    """The same, a file given up after `PATIENCE_SECONDS`, for a thread that must not hang. Raises: SecretNotFound;
    django.db.Error."""
    if _stored_name(reference):
        return read_secret(reference)
    try:
        return secrets.call_now(reference, lambda: read_secret(reference), PATIENCE_SECONDS)
    except TimeoutError:
        raise SecretNotFound(
            f"the secret {reference} was not read within {PATIENCE_SECONDS:g} s; is it on a share that does not answer?"
        ) from None


async def read_secret_in_queue(reference: str, queue: str) -> str | None:
    """The same for a coroutine of a handler of `queue`, which has its own deadline. Raises: SecretNotFound;
    django.db.Error.
    """
    if _stored_name(reference):
        return await ask_database(queue, read_secret, reference)
    return await secrets.call(reference, partial(read_secret, reference))


def _stored_name(reference: str) -> str:
    """The name of the stored secret that it refers to; empty if it refers to none."""
    return reference.removeprefix(PREFIX) if reference.startswith(PREFIX) else ""


def read_regular_file(path: Path, what: str, longest: int) -> bytes:
    """Raises: SecretNotFound if `path` is not a readable regular file of at most `longest` bytes."""
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
    return f"{path} is in no directory of secrets ({allowed}); move it there, or set BACKUPSCHED_SECRETS_DIRECTORIES"
