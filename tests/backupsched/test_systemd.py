"""The units of the scheduler: systemd finds nothing wrong with them, and they are shut in as the documents say."""

import re
import subprocess
from pathlib import Path

import pytest

from backupsched.places import PACKAGE
from tests.programs import needed

FOLDER = PACKAGE / "systemd"
MOST_EXPOSED = {"web": 2.0, "qcluster": 2.0, "worker@": 3.5}
"""Exposure, at most ten, as `systemd-analyze security` counts it; services that do nothing against it have 9.2."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as the script installs them, for a program that is there."""
    program = tmp_path / "opt/bin/backupsched"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    units = tmp_path / "units"
    units.mkdir()
    script = ("/bin/sh", str(FOLDER / "install.sh"), str(tmp_path / "opt"))
    subprocess.run(script, env={"UNITS": str(units), "PATH": "/usr/bin:/bin"}, check=True, capture_output=True)
    return units


def test_systemd_finds_nothing_wrong_with_the_units(installed: Path) -> None:
    analyze = needed("systemd-analyze", "systemd")
    units = sorted(str(each) for each in installed.iterdir())
    assert len(units) == 4
    done = subprocess.run((analyze, "verify", "--man=no", *units), capture_output=True, text=True, check=False)
    own = [line for line in (done.stdout + done.stderr).splitlines() if "backupsched" in line]
    assert (done.returncode, own) == (0, [])


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_the_units_are_shut_in(name: str, installed: Path) -> None:
    analyze = needed("systemd-analyze", "systemd")
    unit = installed / f"backupsched-{name}.service"
    argv = (analyze, "security", "--offline=true", "--threshold=100", "--no-pager", str(unit))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done.stderr
    assert float(found[1]) <= MOST_EXPOSED[name]


def test_a_worker_is_given_longer_than_it_gives_itself(installed: Path) -> None:
    text = (installed / "backupsched-worker@.service").read_text()
    [grace] = re.findall(r"--grace (\d+)m", text)
    [limit] = re.findall(r"TimeoutStopSec=(\d+)", text)
    assert int(limit) > 60 * int(grace)


def test_the_script_names_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        ("/bin/sh", str(FOLDER / "install.sh"), str(tmp_path)), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path}/bin/backupsched is missing" in done.stderr


@pytest.mark.parametrize("home", ["venv", "/opt/Disk #2", "/opt/%h", "/opt/a|b", "/opt/caf\u00e9"])
def test_a_place_that_means_something_else_in_a_unit_is_refused(home: str, tmp_path: Path) -> None:
    script = ("/bin/sh", str(FOLDER / "install.sh"), home)
    done = subprocess.run(script, env={"UNITS": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{home}: name an absolute path of ")
    assert list(tmp_path.iterdir()) == []
