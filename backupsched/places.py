"""Places of an installation's own files, and of the files that are shipped with the code."""

import os
import secrets
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from backupsched.embedded.binaries import make_passable
from backupsched.embedded.layout import SHARED_HOME

PACKAGE = Path(__file__).resolve().parent


def own_command() -> tuple[str, ...]:
    """The command that starts this program from any directory, without its arguments."""
    return (sys.executable, str(CHECKOUT / "manage.py")) if CHECKOUT else (sys.executable, "-m", "backupsched")


def checkout_of(package: Path) -> Path | None:
    """The checkout that contains `package`; None if it was installed from a wheel."""
    return package.parent if (package.parent / "manage.py").is_file() else None


CHECKOUT = checkout_of(PACKAGE)
PROGRAM = "manage.py" if CHECKOUT else "backupsched"
SHIPPED = CHECKOUT or PACKAGE
"""The directory of `agent/`, `docs/` and `fixtures/`: a wheel has them inside the package, where no other package has
files.
"""


def usual_var_directory(environment: Mapping[str, str], user_id: int, checkout: Path | None = CHECKOUT) -> Path:
    """The directory for all files unless BACKUPSCHED_VAR names another: `var/` of the checkout, else the directory that
    systemd's `StateDirectory=backupsched` means to that user.

    Raises: ImproperlyConfigured for a user without a home.
    """
    if checkout:
        return checkout / "var"
    if user_id == 0 or environment.get("HOME") == str(SHARED_HOME):  # the account of the units for systemd
        return SHARED_HOME
    state = environment.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the XDG specification has a relative one ignored
        try:
            state = str(Path.home() / ".local" / "state")
        except RuntimeError as error:
            raise ImproperlyConfigured(
                "this account has no home directory to keep data in: name a directory in BACKUPSCHED_VAR"
            ) from error
    return Path(state) / "backupsched"


def secret_key(var_dir: Path) -> str:
    """The key of an installation that did not bring one, kept in `var_dir/secret_key`, made at the first call.

    Two processes that start together agree: the file appears by a link, whole or not at all.

    Raises: ImproperlyConfigured if the directory cannot be written, or the file is empty.
    """
    path = var_dir / "secret_key"
    try:
        if os.geteuid() == 0:  # the embedded server's own user passes through it
            make_passable(var_dir)
        var_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # containers that share a directory have the same process ids
            with tempfile.NamedTemporaryFile("w", dir=var_dir, prefix=".secret_key.") as draft:
                draft.write(secrets.token_urlsafe(50))
                draft.flush()
                os.fsync(draft.fileno())  # or the machine may lose power between writing the name and its file
                with suppress(FileExistsError):
                    os.link(draft.name, path)
        key = path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(
            f"cannot keep a secret key in {path}: {error.strerror}. Make {var_dir} writable, "
            "name another directory in BACKUPSCHED_VAR, or set SECRET_KEY."
        ) from error
    if not key.strip():
        raise ImproperlyConfigured(
            f"{path} is empty. It opens the sealed secrets: restore it from a copy, such as the one in the "
            "scheduler's own backup; if nothing was stored yet, delete it."
        )
    return key


OF_AN_INSTALLATION = (
    "ALLOWED_HOSTS", "CSRF_TRUSTED_ORIGINS", "DATABASE_PASSWORD", "DATABASE_URL", "DEBUG", "SECRET_KEY",
    "SECRET_KEY_FALLBACKS",
)  # fmt: skip


def enter_the_demo(environment: MutableMapping[str, str]) -> None:
    """Hide an installation from the demo, which has its own var directory and database, and usual settings.

    Raises: ImproperlyConfigured as `usual_var_directory`.
    """
    outer = Path(environment.get("BACKUPSCHED_VAR") or usual_var_directory(environment, os.geteuid()))
    for name in list(environment):
        if name.removesuffix("_FILE") in OF_AN_INSTALLATION or name.startswith(("BACKUPSCHED_", "PG")):
            del environment[name]
    environment["BACKUPSCHED_VAR"] = str(outer.resolve() / "demo")
