"""The files of another commit, in a folder."""

import io
import subprocess
import tarfile
from pathlib import Path

from proving.upgrades.releases import ROOT


def _git(*arguments: str) -> str:
    asked = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout


def commit_named(name: str) -> str:
    """The hash of a commit. Raises: subprocess.CalledProcessError if the clone lacks it."""
    return _git("rev-parse", "--verify", f"{name}^{{commit}}").strip()


def text_of(commit: str, file: str) -> str:
    """A text file of that commit. Raises: subprocess.CalledProcessError if it is not there."""
    return _git("show", f"{commit}:{file}")


def has(commit: str) -> bool:
    """True if this clone has the commit: a shallow one may lack it."""
    asked = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def check_out(commit: str, folder: Path) -> None:
    """Write the files of `commit` into `folder`. Raises: subprocess.CalledProcessError if the clone lacks it."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, capture_output=True)  # noqa: S607
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
