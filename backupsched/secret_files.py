"""Secrets from files: where a platform mounts each as a file (`/run/secrets` of containers), a variable with `_FILE` at
its end names the file. The process then finds the secret in the variable without it, as if it had been given there.
"""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured

SUFFIX = "_FILE"
PASSWORD = "DATABASE_PASSWORD"  # noqa: S105 - its name
FROM_FILES = ("DATABASE_URL", PASSWORD, "SECRET_KEY", "SECRET_KEY_FALLBACKS", "BACKUPSCHED_PING_URL")
LONGEST_BYTES = 65_536


def read_secret_files(environment: MutableMapping[str, str]) -> bool:
    """Replace each variable that names a file by the variable with its content, without the line's end; and put
    DATABASE_PASSWORD into DATABASE_URL. Processes that are started from here find no `_FILE`, and an empty
    DATABASE_PASSWORD: one of a file of settings is then not put in a second time.

    Returns whether DATABASE_URL has got a secret that was kept apart from it. Raises: ImproperlyConfigured, naming
    variable and path, never a content.
    """
    has_secret = bool(environment.get("DATABASE_URL" + SUFFIX))
    for name in FROM_FILES:
        path = environment.get(name + SUFFIX, "")
        if path and environment.get(name):
            raise ImproperlyConfigured(f"{name} and {name}{SUFFIX} are both set: remove one")
        if path:
            environment[name] = _content(name + SUFFIX, Path(path))
        # only now: settings that could not be read are read once more, and would then continue without it
        environment.pop(name + SUFFIX, None)
    if password := environment.get(PASSWORD, ""):
        environment["DATABASE_URL"] = _with_password(environment.get("DATABASE_URL", ""), password)
        environment[PASSWORD] = ""
    return has_secret or bool(password)


def is_given(name: str, environment: Mapping[str, str]) -> bool:
    """Returns True if the environment has this variable, as itself or by the name of a file."""
    plain = name.removesuffix(SUFFIX)
    return plain in environment or plain + SUFFIX in environment


def _content(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_BYTES + 1)
        text = content.decode().rstrip("\r\n")
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}: {path} cannot be read: {error.strerror}. Make that file, readable by the account of this process"
        ) from error
    except UnicodeError:
        raise ImproperlyConfigured(f"{name}: {path} is not text in UTF-8: write the secret alone into it") from None
    if not text.strip() or "\n" in text or "\0" in text or len(content) > LONGEST_BYTES:
        raise ImproperlyConfigured(f"{name}: {path} must hold the secret as its only line: write it there")
    return text


def _with_password(url: str, password: str) -> str:
    """The URL with this password, quoted. Raises: ImproperlyConfigured where it is malformed, has no user, or has
    a password."""
    try:
        account, at, _ = urlsplit(url).netloc.rpartition("@") if "://" in url else ("", "", "")
    except ValueError:  # its text may contain the part before the host
        raise ImproperlyConfigured(
            "DATABASE_URL is malformed: its host cannot be read. It looks like postgresql://user@host:5432/name, with "
            "an IPv6 address in brackets, such as [::1]"
        ) from None
    if not at or not account or ":" in account:
        raise ImproperlyConfigured(
            f"{PASSWORD} is set: then DATABASE_URL has a user and no password, as in postgresql://user@host:5432/name"
        )
    return url.replace(f"://{account}@", f"://{account}:{quote(password, safe='')}@", 1)
