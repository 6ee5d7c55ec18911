"""The hook *it* of this host, and a source whose policy names it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backups.copying.handler import copy_source
from jobs.handlers import Run
from sources import planning
from sources.models import Assignment
from tests.sources.factories import claimed_for, make_assignment, make_source, policy_into

WRITE = 'echo "$BACKUPSCHED_HOOK $BACKUPSCHED_OUTCOME" >> {log}; '

Write = Callable[..., None]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def write(tmp_path: Path, log: Path, settings: Any) -> Write:
    """Write the hook `it` of this host: a shell script for each of its commands, which notes that it ran."""
    settings.HOOKS_FILE = tmp_path / "hooks.toml"

    def write_hook(more: str = "", **scripts: str) -> None:
        lines = [
            f"{key} = {json.dumps(['/bin/sh', '-c', WRITE.format(log=log) + text])}" for key, text in scripts.items()
        ]
        settings.HOOKS_FILE.write_text("\n".join(["[it]", *lines, more, ""]))
        settings.HOOKS_FILE.chmod(0o644)

    return write_hook


@pytest.fixture
def laptop(tmp_path: Path) -> Assignment:
    for name in ("files", "vault"):
        (tmp_path / name).mkdir()
    (tmp_path / "files" / "letter").write_text("Dear bank")
    policy = policy_into(tmp_path / "vault", hook="it", recheck_after=77)
    return make_assignment(policy, make_source(name="laptop", path=str(tmp_path / "files")))


def copy(assignment: Assignment, run: Run | None = None) -> Any:
    return copy_source(run or Run(claimed_for(assignment, queue=planning.BACKUPS)))
