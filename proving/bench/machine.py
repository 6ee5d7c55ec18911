"""The versions, processors and settings that the figures depend on."""

import os
import platform
import subprocess
from pathlib import Path

from proving.bench.contestants import CONTESTANTS
from proving.bench.server import BenchServer

ROOT = Path(__file__).resolve().parents[2]


def facts(server: BenchServer) -> dict[str, object]:
    """The facts as a JSON object."""
    return {
        "commit": commit(),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "postgresql": server.settings(),
        "versions": {
            contestant.distribution: contestant.version
            for contestant in CONTESTANTS.values()
            if contestant.distribution
        },
    }


def commit() -> str:
    """The measured commit, with "-dirty" if the working tree differs from it. Empty outside of a repository."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607 - whichever git there is
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()
