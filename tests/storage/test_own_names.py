"""A manifest under another point's name, where no database knows the digests of manifests."""

import gzip
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from storage import layout
from storage.points import manifests, runs
from storage.points.manifests import ManifestDamaged
from storage.recover import instructions
from storage.recover import program as recovering
from tests.storage.building import ASSIGNMENT, Built
from tests.storage.recovering import follow

FIRST, SECOND = "20261120T060000Z", "20261120T070000Z"
AFTER, LAST = f"{SECOND}-2", f"{SECOND}-3"
"""Points after the clock had gone back: their runs began before that second."""


@pytest.fixture
def built(tmp_path: Path) -> Built:
    built = Built(tmp_path / "built")
    for content in ("first", "second"):
        built.write("a", content)
        built.back_up()
    before = built.store.header(ASSIGNMENT, FIRST)
    assert before is not None
    assert built.points == [FIRST, SECOND]
    for name, base in ((AFTER, SECOND), (LAST, AFTER)):
        built.write("a", f"content of {name}")
        entries = [each._replace(folder=name) for each in built.entries()]
        shutil.copytree(built.source, built.location.at(f"{layout.files_path(ASSIGNMENT)}/{name}"))
        runs.write_point(built.store, ASSIGNMENT, name, replace(before, base=base), entries)
    return built


def manifest(built: Built, point: str) -> Path:
    return Path(built.location.at(layout.manifest_path(ASSIGNMENT, point)))


@pytest.mark.parametrize(
    ("of", "under"),
    [(FIRST, SECOND), (SECOND, FIRST), (SECOND, AFTER), (AFTER, SECOND), (AFTER, LAST), (LAST, AFTER)],
)
def test_a_point_whose_manifest_is_that_of_another_one_is_not_restored(
    built: Built, of: str, under: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how, target = [built.location.root, "--source", ASSIGNMENT], tmp_path / "to"
    assert recovering.main([*how, "--at", under, "--to", str(target)]) == 0
    shutil.rmtree(target)
    shutil.copyfile(manifest(built, of), manifest(built, under))
    capsys.readouterr()
    for more in (["--to", str(target)], ["--list", "--path", "a"]):
        assert recovering.main([*how, "--at", under, *more]) == 1
        assert f"under the name of point {under} is that of another one" in "".join(capsys.readouterr())
    assert not target.exists() or not any(target.iterdir())
    assert recovering.main([*how, "--at", of, "--to", str(target)]) == 0


@pytest.mark.parametrize(("of", "why"), [(FIRST, "its run began"), (AFTER, "not earlier")])
def test_a_manifest_that_was_packed_again_is_known_by_its_run_and_the_point_before_it(
    built: Built, of: str, why: str
) -> None:
    under = SECOND if of == FIRST else LAST
    header, lines = manifests.read_header(manifest(built, of)), gzip.decompress(manifest(built, of).read_bytes())
    base = "" if of == FIRST else LAST
    lines = lines.replace(header.base.encode(), base.encode(), 1) if header.base else lines
    manifest(built, under).write_bytes(gzip.compress(lines))
    with pytest.raises(ManifestDamaged, match=why):
        built.store.header(ASSIGNMENT, under)


@pytest.mark.parametrize(("of", "under"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_the_commands_of_recover_txt_end_at_the_manifest_of_another_point(
    built: Built, of: str, under: str, tmp_path: Path
) -> None:
    shutil.copyfile(manifest(built, of), manifest(built, under))
    choices = {"SOURCE": ASSIGNMENT, "POINT": under, "TO": str(tmp_path / "to")}
    with pytest.raises(subprocess.CalledProcessError):
        follow(instructions.text_of(built.location), tmp_path, {}, **choices)
    assert not any((tmp_path / "to").iterdir())
