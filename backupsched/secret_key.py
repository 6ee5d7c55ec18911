"""The secret key of an installation that did not bring its own: made once, readable by its owner only."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from backupsched.embedded.binaries import make_passable


def secret_key(var_dir: Path) -> str:
    """Return the key kept in `var_dir/secret_key`, made at the first call.

    Two processes that start together agree: the file appears with a link, whole or not at all.

    Raises: ImproperlyConfigured when the directory cannot be written.
    """
    path = var_dir / "secret_key"
    try:
        if os.geteuid() == 0:  # the embedded server's own user passes through it
            make_passable(var_dir)
        var_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            draft = var_dir / f".secret_key.{os.getpid()}"
            draft.touch(mode=0o600)
            draft.write_text(secrets.token_urlsafe(50))
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        return path.read_text()
    except OSError as error:
        raise ImproperlyConfigured(
            f"cannot keep a secret key in {path}: {error.strerror}. Make {var_dir} writable, "
            "name another directory in BACKUPSCHED_VAR, or set SECRET_KEY."
        ) from error
