"""A commit that is ready to be released, and the files in which a version is named."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from backupsched.version import own_version
from proving.upgrades import checkout, fixture, releases
from proving.upgrades.releases import ROOT, Release

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
HEADINGS = re.findall(r"^## (\S+) \(([^)]+)\)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_all_files_name_one_version_and_a_released_one_has_a_date() -> None:
    newest, when = HEADINGS[0]
    assert own_version() == VERSION
    assert VERSION.removesuffix(".dev0") == newest
    assert VERSION.endswith(".dev0") == (when == "not yet released")
    assert f":-localhost/backupsched:{VERSION}}}" in (ROOT / "compose.yaml").read_text()
    dates = dict(HEADINGS)
    for release in releases.read().releases:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", dates[release.version])
        assert release.database.is_file()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own, whose one commit says that it is 0.3.0, not yet released. Neither a hook of git in which
    the tests run nor the settings of who runs them matter to it."""
    for name in [each for each in os.environ if each.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "releases.toml").write_text("# none\n")
    commit(folder, "0.3.0", "## 0.3.0 (not yet released)\n\n## 0.2.0 (2026-12-01)\n")
    for module in (checkout, releases, fixture):
        monkeypatch.setattr(module, "ROOT", folder)
    monkeypatch.setattr(releases, "FILE", folder / "releases.toml")
    return folder


def commit(folder: Path, version: str, changes: str) -> None:
    (folder / "pyproject.toml").write_text(f'[project]\nname = "backupsched"\nversion = "{version}"\n')
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n{changes}")
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    for each in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", version)):
        subprocess.run(["git", "-C", str(folder), *each], check=True)


@pytest.mark.parametrize(
    ("version", "commit", "message"),
    [
        ("0.3.0", "HEAD", r"HEAD: write `## 0\.3\.0 \(the date\)` in place of `## 0\.3\.0 \(not yet released\)`"),
        ("0.3", "HEAD", r"HEAD is version 0\.3\.0 by its pyproject\.toml: write 0\.3 there"),
        ("0.3.0", "v0.3.0", r"v0\.3\.0: fatal: "),
    ],
)
def test_a_commit_that_is_not_ready_is_refused_in_a_sentence(version, commit, message, clone, capsys):
    assert fixture.main([version, "--commit", commit]) == 2
    assert re.match(f"Error: {message}", capsys.readouterr().err)
    assert (clone / "releases.toml").read_text() == "# none\n"


def test_a_release_is_entered_once_and_read_back(clone, capsys):
    commit(clone, "0.3.0", "## 0.3.0 (2026-12-24): more\n")
    found = fixture.look_at("HEAD", "0.3.0")
    assert re.fullmatch("[0-9a-f]{40}", found)
    made = Release("0.3.0", found, clone / "proving/upgrades/0.3.0.sql.gz", {"jobs": "0007_b", "api": "0001_a"})
    with (clone / "releases.toml").open("a") as file:
        file.write(f"{releases.entry(made)}\n{releases.entry(made)}")
    assert releases.read(clone / "releases.toml").releases == [made, made]
    assert fixture.main(["0.3.0"]) == 2
    assert capsys.readouterr().err == "Error: releases.toml has 0.3.0 already\n"
