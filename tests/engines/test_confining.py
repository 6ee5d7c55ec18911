"""A folder in a repository on this host becomes a link while an order works there, as the process of a worker."""

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from engines.base import SourceSpec
from engines.repository_process import PROGRAM
from external.processes import launcher
from external.processes.confinement import WITH_MOVES
from external.processes.orders import Order
from storage.layout import ENCRYPTED
from storage.places.identity import Identity
from storage.places.location import Location, of_directory
from storage.points.store import StorageFailed
from tests.engines.peers import local_folder, task_for, write_files
from tests.engines.swapped import Swapped, ordered
from tests.storage.played_runs import ASSIGNMENT
from tests.storage.repositories import encrypted

pytestmark = [
    pytest.mark.skipif(launcher.version() < WITH_MOVES, reason="this kernel has no Landlock, or its first version"),
    pytest.mark.usefixtures("elsewhere"),
]
OURS = asdict(Identity("ours", "office"))
SECRET = "* * * * * root touch /tmp/x"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files have a place of their own: else they would be next to all of this."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))


@pytest.fixture
def source(tmp_path: Path) -> SourceSpec:
    return local_folder(write_files(tmp_path / "in", job=SECRET, **{"deep/er": SECRET, "odd:name": SECRET}))


def backed_up(
    source: SourceSpec, place: Location, kept: Callable[[Any], object] = lambda facts: True
) -> dict[str, Any]:
    task = asdict(task_for(source, Path(ASSIGNMENT), location=place, folder=ASSIGNMENT, known={}))
    return ordered("back_up", kept, task=task | {"location": place.as_json()}, ours=OURS)


def copying(point: dict[str, Any], first: Location, second: Location) -> dict[str, Any]:
    """The facts of an order to copy what a backup has made."""
    facts = {"newest": "", "again": [], "damaged": {}, "bandwidth": "", "zone": "UTC", "reserve": 0.0, "made": False}
    facts |= {"known": {point["snapshot"]: [point["manifest"]]}, "known_there": {}, "folder": ASSIGNMENT, "ours": OURS}
    return facts | {"location": first.as_json(), "target": second.as_json()}


KINDS = [
    pytest.param(of_directory, id="plain"),
    pytest.param(lambda path: encrypted(of_directory(path)), id="encrypted", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("path", ["files/RUN", "files", "manifests"])
@pytest.mark.parametrize("as_it_is", KINDS)
def test_a_folder_that_becomes_a_link_during_a_backup_leads_it_nowhere(
    as_it_is: Callable[[Path], Location], path: str, source: SourceSpec, tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    swapped = Swapped(as_it_is(tmp_path / "copy"), path, tmp_path / "victim")
    result = backed_up(source, swapped.store.location, swapped)
    assert swapped.link.is_symlink()
    assert os.listdir(tmp_path / "victim") == []
    assert "succeeded" not in result["verdict"], result
    swapped.link.unlink()
    assert backed_up(source, swapped.store.location)["verdict"] == "succeeded", "once it is put right"


@pytest.mark.slow
@pytest.mark.parametrize("as_it_is", KINDS)
def test_a_copy_writes_behind_no_link_that_appears_in_its_target(
    as_it_is: Callable[[Path], Location], source: SourceSpec, tmp_path: Path
) -> None:
    for each in ("office", "offsite"):
        (tmp_path / each).mkdir()
    first, second = encrypted(of_directory(tmp_path / "office")), as_it_is(tmp_path / "offsite")
    point = backed_up(source, first)
    assert point["verdict"] == "succeeded"
    swapped = Swapped(second, "files/RUN", tmp_path / "victim")
    facts = copying(point, first, second)
    result = ordered("copy_points", swapped, **facts)
    assert swapped.link.is_symlink()
    assert os.listdir(tmp_path / "victim") == []
    assert "permission denied" in result["problem"], result
    swapped.link.unlink()
    assert ordered("copy_points", **facts)["new"] == [point["snapshot"]]


def behind_links(repository: Path, *paths: str) -> Path:
    """Move folders of a repository to another place, as an administrator whose disk is full, and leave links. Returns
    the first one."""
    elsewhere = repository.with_name(f"{repository.name}-elsewhere")
    for path in paths:
        (elsewhere / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).rename(elsewhere / path)
        (repository / path).symlink_to(elsewhere / path)
    return repository / paths[0]


def cause(link: Path) -> str:
    return f"{link} is a link to {link.resolve()}, out of the repository: nothing is written or deleted behind links. "


def test_a_link_of_an_administrator_is_named_with_what_to_do(source: SourceSpec, tmp_path: Path) -> None:
    place = of_directory(write_files(tmp_path / "office"))
    point = backed_up(source, place)
    link = behind_links(tmp_path / "office", ASSIGNMENT.partition("/")[0])
    result = backed_up(source, place)
    assert (result["verdict"], result["error"].startswith(cause(link))) == ("the repository failed", True), result
    assert "mount --bind" in result["error"]
    with pytest.raises(StorageFailed, match=re.escape(cause(link))):
        ordered("remove_points", location=place.as_json(), folder=ASSIGNMENT, points=[point["snapshot"]], stay=[])
    link.unlink()
    link.mkdir(mode=0o500)
    (link / "nightly").symlink_to(tmp_path / "office")
    assert "is a link" not in backed_up(source, place)["error"], "none that leads out"


@pytest.mark.slow
def test_so_is_one_in_an_encrypted_repository_and_in_the_target_of_a_copy(source: SourceSpec, tmp_path: Path) -> None:
    for each in ("office", "offsite"):
        (tmp_path / each).mkdir()
    first, second = (encrypted(of_directory(tmp_path / each)) for each in ("office", "offsite"))
    assert ordered("copy_points", **copying(backed_up(source, first), first, second))["new"]
    point = backed_up(source, first)
    links = [
        behind_links(each, f"{ENCRYPTED}/{folder}")
        for each in (tmp_path / "offsite", tmp_path / "office")
        for folder in os.listdir(each / ENCRYPTED)
    ]
    assert ordered("copy_points", **copying(point, first, second))["problem"].startswith(cause(links[0]))
    assert backed_up(source, first)["error"].startswith(cause(links[1]))


@pytest.mark.slow
def test_what_a_backup_loads_is_compiled_before_it_may_write_nowhere_else(source: SourceSpec, tmp_path: Path) -> None:
    """If the scheduler was installed without compiled modules, each backup spent a second on compiling them."""
    (tmp_path / "copy").mkdir()
    place = of_directory(tmp_path / "copy")
    task = asdict(task_for(source, Path(ASSIGNMENT), location=place, folder=ASSIGNMENT)) | {"location": place.as_json()}
    order = Order(PROGRAM, "back_up", {"task": task, "ours": OURS})
    argv = (*order.argv[:1], "-X", f"pycache_prefix={tmp_path / 'compiled'}", *order.argv[1:])
    done = subprocess.run(argv, input=order.given, capture_output=True, check=True)
    assert b"succeeded" in done.stdout
    loaded = {each.name.partition(".")[0] for each in (tmp_path / "compiled").rglob("engines/rclone/*.pyc")}
    assert {"engine", "backup", "listing", "log"} <= loaded
