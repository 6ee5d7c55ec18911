"""Secrets are kept outside the database: a source names where its password is found.

`env:NAME` is an environment variable of the worker, `file:/path` a file that the worker may read.
"""

import os
from pathlib import Path


class SecretNotFound(ValueError):
    """The place that a reference names holds no secret. The message says what to set, never a secret."""


def read_secret(reference: str) -> str | None:
    """Return the secret that `reference` names; None for an empty reference. One newline at its end is cut.

    Raises: SecretNotFound when the variable is not set, the file unreadable, or the reference malformed.
    """
    if not reference:
        return None
    where, _, name = reference.partition(":")
    if where == "env" and name:
        if name not in os.environ:
            raise SecretNotFound(f"the environment variable {name} is not set; set it for the worker")
        return os.environ[name]
    if where == "file" and name:
        return _read_file(Path(name))
    raise SecretNotFound("a secret must be given as env:NAME or file:/path; correct it in the source")


def _read_file(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SecretNotFound(
            f"the secret file {path} cannot be read ({error.strerror}); let the worker read it"
        ) from error
    except UnicodeDecodeError:
        raise SecretNotFound(f"the secret file {path} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
