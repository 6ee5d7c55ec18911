"""The command of the chaos tests, run as a process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings


def run(place: Path, *arguments: str) -> dict[str, Any]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "BACKUPSCHED_VAR")}
    command = [sys.executable, "-m", *arguments, "--json"]
    ended = subprocess.run(
        command, cwd=settings.BASE_DIR, env={**kept, "TMPDIR": str(place)}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended
    return json.loads(ended.stdout)
