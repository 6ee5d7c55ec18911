"""Tests find the programs of a bare machine, and others only if they ask for them."""

import os
import shutil
from pathlib import Path

import pytest

from tests.programs import names_in, needed, needs_restic, postgresql_programs

LARGE = ("restic", "mariadb", "mysqldump", "psql", "chromium", "dovecot", "smbd", "qemu-img", "pgbouncer", "prometheus")


def test_a_test_finds_what_a_bare_machine_has_and_nothing_else() -> None:
    folders = os.environ["PATH"].split(os.pathsep)
    assert {name for folder in folders for name in os.listdir(folder)} <= set(names_in("bare-programs"))
    assert [name for name in LARGE if shutil.which(name)] == []
    assert shutil.which("make")


@needs_restic
def test_one_that_needs_more_finds_that_too_or_is_skipped() -> None:
    assert [name for name in LARGE if shutil.which(name)] == ["restic"]


class TestWhatIsNotInstalled:
    @pytest.fixture(autouse=True)
    def _nothing_is(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("BACKUPSCHED_TEST_PATH", str(tmp_path))

    @pytest.mark.parametrize(("ask", "name"), [
        (lambda: needed("restic", "restic"), "restic"),
        (lambda: postgresql_programs(15), "PostgreSQL 15"),
    ])  # fmt: skip
    def test_skips_by_its_name_and_fails_where_every_test_runs(self, ask, name, monkeypatch) -> None:
        monkeypatch.delenv("EVERY_TEST_RUNS", raising=False)
        with pytest.raises(pytest.skip.Exception, match=f"{name} is not installed .*apt install .*`.ci/run` installs"):
            ask()
        monkeypatch.setenv("EVERY_TEST_RUNS", "1")
        with pytest.raises(pytest.fail.Exception, match=f"{name} is not installed"):
            ask()

    def test_and_is_not_in_the_list_of_packages_fails(self) -> None:
        with pytest.raises(pytest.fail.Exception, match="add cowsay to"):
            needed("cowsay", "cowsay")
