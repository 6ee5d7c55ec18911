"""The command line of a checkout, run as a process."""

import os
import subprocess
import sys
from pathlib import Path

from django.conf import settings

from tests.documents import ROOT

MANAGE = [sys.executable, "manage.py"]


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MANAGE, *arguments],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "backupsched.settings", "DATABASE_URL": "", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def environment(home: Path, **more: str) -> dict[str, str]:
    """That of an installation in `home` without a database, whose program is the package."""
    usual = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BACKUPSCHED_VAR")}
    own = {"BACKUPSCHED_VAR": str(home / "var"), "DJANGO_SETTINGS_MODULE": "backupsched.settings"}
    return usual | own | {"PYTHONPATH": str(ROOT)} | more
