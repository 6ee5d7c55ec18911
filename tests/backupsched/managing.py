"""The command line of a checkout, run as a process."""

import os
import subprocess
import sys

from django.conf import settings

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
