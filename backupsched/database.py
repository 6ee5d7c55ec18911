"""The PostgreSQL that the project uses: that of `DATABASE_URL`, or an embedded one that starts when first needed."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from backupsched.embedded.layout import DATABASE, PORT, USER, Layout
from backupsched.places import PROGRAM

OPTIONS = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # a cut line must not hold up a progress report, and with it the stop of an engine: it gives up before a guard does
    "tcp_user_timeout": 20_000,
    "application_name": "backupsched",
}
"""A host that loses its power must not hold a lock for hours."""


QUOTED = re.compile(r"""(['"]).*\1""", re.DOTALL)


def databases(url: str | None, var_dir: Path, *, pooled: bool = False, kept_in: Path | None = None) -> dict[str, Any]:
    """Django's DATABASES for `DATABASE_URL`, or for the embedded server in `var_dir` if there is none.

    `pooled`: connections go through a transaction pooler, so no cursor outlives its transaction. `kept_in`: the file
    that has the URL, named if the server does not answer; None if the URL is from the environment.

    Starts nothing. Raises: ImproperlyConfigured for a malformed URL or one of another database system.
    """
    database = _external(url, kept_in) if url else _embedded(var_dir)
    database["OPTIONS"] = {**OPTIONS, **database.get("OPTIONS", {})}
    return {
        "default": {**database, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True, "DISABLE_SERVER_SIDE_CURSORS": pooled}
    }


def _external(url: str, kept_in: Path | None) -> dict[str, Any]:
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(
            f"DATABASE_URL begins with {scheme or 'no scheme'!r}; only PostgreSQL is supported: "
            "postgresql://user:password@host:5432/name"
        )
    try:
        return {
            **_parsed(url),
            "ENGINE": "backupsched.postgresql",
            "WHEN_AWAY": f"Check DATABASE_URL{f' in {kept_in}' if kept_in else ''}, and that the server runs; "
            f"{'remove the line' if kept_in else 'unset it'} to use the embedded one.",
        }
    except (ValueError, ProgrammingError) as error:
        why = QUOTED.sub("…", str(error).strip())  # the quoted part may be the password, so the cause is left out, too
        raise ImproperlyConfigured(
            f"DATABASE_URL is malformed ({why}); it looks like postgresql://user:password@host:5432/name, with signs "
            "such as @, / and % in a password written as %40, %2F and %25"
        ) from None


def _parsed(url: str) -> dict[str, Any]:
    """The settings of a URL. With several hosts, as libpq takes them (`host1:5432,host2:5432`), the one that may write
    is used, unless the URL asks for another.

    Raises: ValueError or psycopg.ProgrammingError for a malformed URL.
    """
    _, at, hosts = urlsplit(url).netloc.rpartition("@")
    if "," not in hosts:
        return dict(dj_database_url.parse(url))
    found: dict[str, Any] = dict(
        dj_database_url.parse(url.replace(f"{at or '//'}{hosts}", f"{at or '//'}several.invalid", 1))
    )
    every = conninfo_to_dict(url)
    ports = [_port(each or str(PORT)) for each in str(every.get("port", "")).split(",")]
    options = {"target_session_attrs": "read-write", **found.get("OPTIONS", {})}
    return {**found, "HOST": every["host"], "PORT": ",".join(ports), "OPTIONS": options}


def _port(written: str) -> str:
    if not written.isdecimal() or not 0 < int(written) < 2**16:
        raise ValueError(f"{written} is not a port")
    return written


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
