"""Accounts beside root, and a folder that they may pass through."""

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root gives files away")
OWNER, WORKER = 65_534, 1
"""The account of the target; and a worker that is not root."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that every account may pass through, unlike `tmp_path`."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o755)
    yield home
    shutil.rmtree(home)


def as_another(work: Callable[[], list[str]]) -> list[str]:
    """Returns what it returns, done by an account that is not root, sorted."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(WORKER)
            os.setuid(WORKER)
            os.write(write, "\n".join(work()).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    os.close(write)
    with open(read) as said:
        return sorted(said.read().splitlines())
