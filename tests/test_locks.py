"""Each lock holds all that its environment needs: a dependency that is added goes into every one of them."""

import re
import tomllib

import pytest
from django.conf import settings

PROJECT = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
NAME = re.compile(r"[A-Za-z0-9._-]+")
TEST = PROJECT["dependency-groups"]["test"]
NEEDED = {
    "requirements.lock": [],
    "requirements-test.lock": TEST,
    "requirements-dev.lock": [*TEST, *(each for each in PROJECT["dependency-groups"]["dev"] if isinstance(each, str))],
    "requirements-bench.lock": PROJECT["dependency-groups"]["bench"],
    "requirements-sqs.lock": EXTRAS["sqs"],
}
OF_FEW = {"sqs", "simulation"}
EVERYWHERE = [requirement for extra, required in EXTRAS.items() if extra not in OF_FEW for requirement in required]
"""Packages that the README's two commands need, or show."""


def names_of(requirements: list[str]) -> set[str]:
    """Their distributions as locks write them."""
    found = (NAME.match(requirement) for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


@pytest.mark.parametrize("lock", NEEDED)
def test_a_lock_pins_every_dependency_with_hashes_and_names_no_index(lock):
    text = (settings.BASE_DIR / lock).read_text()
    pinned = names_of(re.findall(r"^\S+==", text, re.MULTILINE))
    needed = [*PROJECT["project"]["dependencies"], *EVERYWHERE, *NEEDED[lock]]
    assert names_of(needed) - {"backupsched"} <= pinned
    assert text.count("--hash=sha256:") >= len(pinned)
    assert "://" not in text


def test_what_the_tests_add_is_pinned_alike_so_that_one_environment_takes_both():
    test, dev = (
        dict(re.findall(r"^(\S+)==(\S+)", (settings.BASE_DIR / f"requirements-{name}.lock").read_text(), re.MULTILINE))
        for name in ("test", "dev")
    )
    assert test.items() <= dev.items()


def test_there_is_no_other_lock():
    assert {path.name for path in settings.BASE_DIR.glob("requirements*.lock")} == set(NEEDED)
