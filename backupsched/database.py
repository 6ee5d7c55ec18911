"""Which PostgreSQL the project uses."""

from pathlib import Path
from typing import Any

import dj_database_url


def databases(url: str | None, var_dir: Path) -> dict[str, Any]:
    """Django's DATABASES for `DATABASE_URL`, or for the embedded server in `var_dir` when there is none."""
    assert url, "embedded: being written"
    return {"default": dict(dj_database_url.parse(url, conn_max_age=None, conn_health_checks=True))}
