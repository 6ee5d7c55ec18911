"""Each lock holds all that its environment needs: a dependency that is added goes into every one of them."""

import re
import tomllib

import pytest
from django.conf import settings
from packaging.requirements import Requirement

DJANGO_6 = "requirements-django-6.0.lock"
PROJECT = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
NAME = re.compile(r"[A-Za-z0-9._-]+")
TEST = PROJECT["dependency-groups"]["test"]
DEPENDENCIES = PROJECT["project"]["dependencies"]
OF_FEW = {"sqs", "simulation"}
SHOWN = [requirement for extra, required in EXTRAS.items() if extra not in OF_FEW for requirement in required]
EVERYWHERE = [*DEPENDENCIES, *SHOWN]
"""What the README's two commands need, or show."""
NEEDED = {
    "requirements.lock": EVERYWHERE,
    "requirements-test.lock": [*EVERYWHERE, *TEST],
    "requirements-dev.lock": [
        *EVERYWHERE, *TEST, *(each for each in PROJECT["dependency-groups"]["dev"] if isinstance(each, str)),
    ],
    "requirements-bench.lock": [*EVERYWHERE, *PROJECT["dependency-groups"]["bench"]],
    "requirements-sqs.lock": [*EVERYWHERE, *EXTRAS["sqs"]],
    DJANGO_6: ["django"],
}  # fmt: skip


def names_of(requirements: list[str]) -> set[str]:
    """Their distributions as locks write them."""
    found = (NAME.match(requirement) for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


def pins(lock: str) -> dict[str, str]:
    """The version of each package in a lock file, by its name."""
    return dict(re.findall(r"^(\S+)==(\S+)", (settings.BASE_DIR / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize("lock", NEEDED)
def test_a_lock_pins_every_dependency_with_hashes_and_names_no_index(lock):
    text = (settings.BASE_DIR / lock).read_text()
    pinned = names_of(re.findall(r"^\S+==", text, re.MULTILINE))
    assert names_of(NEEDED[lock]) - {"backupsched"} <= pinned
    assert text.count("--hash=sha256:") >= len(pinned)
    assert "://" not in text


def test_what_the_tests_add_is_pinned_alike_so_that_one_environment_takes_both():
    assert pins("requirements-test.lock").items() <= pins("requirements-dev.lock").items()


def test_the_other_django_is_allowed_too_and_over_a_lock_changes_nothing_but_itself():
    [allowed] = [Requirement(each).specifier for each in DEPENDENCIES if names_of([each]) == {"django"}]
    usual, other = pins("requirements-test.lock"), pins(DJANGO_6)
    versions = usual.pop("django"), other.pop("django")
    assert [version.rpartition(".")[0] for version in versions] == ["5.2", "6.0"]
    assert list(allowed.filter(versions)) == list(versions)
    assert other.items() <= usual.items()


def test_there_is_no_other_lock():
    assert {path.name for path in settings.BASE_DIR.glob("requirements*.lock")} == set(NEEDED)
