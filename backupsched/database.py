"""Which PostgreSQL the project uses: that of `DATABASE_URL`, or an embedded one that starts when first needed."""

from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from backupsched.embedded.layout import DATABASE, PORT, USER, Layout
from backupsched.places import PROGRAM

OPTIONS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # a progress that a cut line holds up would hold up the stop of its engine: it gives up before a guard does
    "tcp_user_timeout": 20_000,
    "application_name": "backupsched",
}
"""A host that loses its power must not hold a lock for hours."""


def databases(url: str | None, var_dir: Path, *, pooled: bool = False) -> dict[str, Any]:
    """Django's DATABASES for `DATABASE_URL`, or for the embedded server in `var_dir` when there is none.

    `pooled`: a pooler of transactions stands before it, so no cursor outlives its transaction.

    Starts nothing. Raises: ImproperlyConfigured for a malformed URL or one of another database system.
    """
    database = _external(url) if url else _embedded(var_dir)
    database["OPTIONS"] = {**OPTIONS, **database.get("OPTIONS", {})}
    return {
        "default": {**database, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True, "DISABLE_SERVER_SIDE_CURSORS": pooled}
    }


def _external(url: str) -> dict[str, Any]:
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {scheme or 'no scheme'!r}; only PostgreSQL is supported: "
            "postgresql://user:password@host:5432/name"
        )
    try:
        return {
            **dj_database_url.parse(url),
            "WHEN_AWAY": "Check DATABASE_URL, and that the server runs; unset it to use the embedded one.",
        }
    except ValueError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL is malformed ({error}); it looks like postgresql://user:password@host:5432/name"
        ) from error


def _embedded(var_dir: Path) -> dict[str, Any]:
    layout = Layout(var_dir)
    return {
        "ENGINE": "backupsched.postgresql",
        "NAME": DATABASE,
        "USER": USER,
        "HOST": str(layout.socket_directory),
        "PORT": str(PORT),
        "EMBEDDED_IN": str(var_dir),
        "WHEN_AWAY": f"See `{PROGRAM} database status`.",
    }
