"""A worker opens as many sockets for questions as its limit of file descriptors allows, which it raises first."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource
from external.sockets import sockets
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
sockets.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], sockets.limit)
"""


@pytest.mark.parametrize(("soft", "hard", "raised"), [(256, 4096, (4096, 3584)), (256, 256, (256, 128))])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, raised: tuple[int, int]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(soft=soft, hard=hard)], capture_output=True, text=True, check=True
    )
    assert tuple(map(int, done.stdout.split())) == raised
