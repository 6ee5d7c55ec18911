"""Programs of the system that some tests need and that pip does not bring."""

import os
import shutil

import pytest


def needed(name: str, package: str) -> str:
    """The path of a program. Without it the test is skipped and says what to install; in `.ci/run` it fails."""
    if path := shutil.which(name):
        return path
    missing = f"{name} is not installed (Debian: apt install {package}); `.ci/run` installs it"
    if os.environ.get("EVERY_TEST_RUNS") == "1":
        pytest.fail(missing)
    pytest.skip(missing)
