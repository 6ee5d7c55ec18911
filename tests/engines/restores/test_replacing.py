"""A restore that replaces files of a WebDAV share leaves the old one or the new one, whole, whatever fails."""

from pathlib import Path
from threading import Event

import pytest

from engines.restores import replacing, to_source
from engines.restores.scratch_batch import ScratchBatch
from storage.places import remote_control, remotes
from storage.points.manifests import Entry
from storage.points.store import Store
from storage.restoring.base import TargetFailed, Wish
from tests.engines.faulty_webdav import HALF, NOT_ANSWERED, NOT_DONE, faulty_share
from tests.engines.peers import PASSWORD, free_port, loopback_address, specification, write_files
from tests.storage.building import ASSIGNMENT, Built

OLD, NEW, LARGE = "old " * 50, "new", "new, and large enough to go straight there"
LEFT = "docs/backupsched-restore-0123abcd"
FAULTS = {
    "half": ("PUT", HALF), "no-answer": ("PUT", NOT_ANSWERED), "no-room": ("PUT", 507), "locked": ("MOVE", 423),
    "moved": ("MOVE", NOT_ANSWERED), "broken": ("MOVE", NOT_DONE), "large": ("MOVE", 403), "dropped": ("MOVE", 500),
    "folder": ("PUT", None), "cut": ("MOVE", NOT_DONE), "busy": ("MOVE", 503),
}  # fmt: skip
"""Files of a share, each with the method that fails there, and how. One is dropped by the server when it fails, one
becomes a folder in the meantime, of one the server has half when the connection breaks, and one has a busy server.
"""
APART = ("dropped", "cut", "busy")
"""The files that are in a folder with their name."""
BUSY_TIMES = 6
"""The requests about a file that a busy server refuses, after the one to move it: all of one look."""


def texts(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


@pytest.mark.slow
def test_what_fails_leaves_the_old_file_or_the_new_one_and_what_was_killed_is_cleared_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_source, "SCRATCH_BYTES", 2 * len(NEW) * len(FAULTS))
    built, share = Built(tmp_path / "built"), tmp_path / "share"
    (share / LEFT).mkdir(parents=True)
    for name in APART:
        (share / name).mkdir()
    (share / LEFT / "fine").write_text("by a restore that was killed")
    for name in ("fine", *FAULTS):
        path = f"{name if name in APART else 'docs'}/{name}"
        built.write(path, LARGE * 10 if name == "large" else NEW)
        (share / path).write_text(OLD)
    wish = Wish(ASSIGNMENT, built.back_up(), Path(), overwrite=True)
    asked = list[str]()

    def spoil(method: str, path: str) -> str | int | None:
        name = path.rpartition("/")[2]
        if method == "PROPFIND" and path.strip("/").startswith("busy") and 0 < len(asked) <= BUSY_TIMES:
            asked.append(path)
            return 503
        if FAULTS.get(name, ("",))[0] != method:
            return None
        if name == "dropped":
            (share / name / name).unlink(missing_ok=True)
        elif name == "cut":
            (share / name / name).write_text(NEW[:1])
        elif name == "busy":
            asked.append(path)
        elif name == "folder":
            (share / "docs" / name).unlink()
            write_files(share / "docs" / name, inside=OLD)
        return FAULTS[name][1]

    faults, cache = [spoil], built.folder / "cache"
    with faulty_share(share, lambda method, path: faults[0](method, path)) as source:
        report = to_source.put_back(wish, built.store, source, cache, lambda step: None)
        found = texts(share)
        faults[0] = lambda method, path: 507 if method == "PUT" and path.endswith(("/dropped", "/cut")) else None
        copy = ScratchBatch._copy
        monkeypatch.setattr(ScratchBatch, "_copy", lambda *given: copy(*given) | {"a name of rclone's own": "odd"})
        again = to_source.put_back(wish, built.store, source, cache, lambda step: None)
    dropped, cut = kept = sorted(each for each in found if "backupsched" in each)[::-1]
    new = {"docs/fine", "docs/moved", *kept}
    others = {f"docs/{name}" for name in FAULTS.keys() - {"moved", "folder", *APART}} | {"busy/busy"}
    there = dict.fromkeys(new, NEW) | {"cut/cut": NEW[:1]}
    assert found == there | dict.fromkeys(others | {"docs/folder/inside"}, OLD)
    failed = {path: why for path, _, why in (each.partition(": ") for each in report.failed)}
    assert failed.keys() == others | {"dropped/dropped", "cut/cut", "docs/folder"}, report
    assert [path for path, why in failed.items() if "no longer has" in why] == ["cut/cut", "dropped/dropped"]
    assert dropped.rpartition("/")[0] in failed["dropped/dropped"]
    assert cut.rpartition("/")[0] in failed["cut/cut"]
    assert (report.files, report.failed_files) == (2, len(failed))
    assert not [each for each in failed.values() if PASSWORD in each or "html" in each]
    assert len(asked) == 1 + BUSY_TIMES
    folders = {each.name for each in share.rglob("*") if each.is_dir()}
    assert folders == {"docs", "folder", *APART, *(each.split("/")[1] for each in kept)}
    # the next try, which comes as far as it can, and leaves the only copies that there are
    assert {path for path in texts(share) if "backupsched" in path} == {*kept}
    assert sum(text == NEW for text in texts(share).values()) == len(kept) + len(FAULTS) - 3
    assert {each.partition(": ")[0] for each in again.failed} == {"docs/folder", "dropped/dropped", "cut/cut"}, again


def test_a_server_that_is_gone_is_soon_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ask = list[str](), remote_control.ask
    monkeypatch.setattr(remote_control, "ask", lambda *given: asked.append(given[1]) or ask(*given))
    own, notes = loopback_address(), list[str]()
    settings = {"type": "webdav", "url": f"http://{own}:{free_port(own)}", "vendor": "other"}
    at = Store(remotes.location_of("share", settings, {}, None), Event())
    names = [f"{number}/a" for number in range(20)]
    replacement = replacing.Replacement(at, True, notes.append, folders={f"{name}/b" for name in names})
    with pytest.raises(TargetFailed, match="connection refused"), replacement.cleared():
        replacement.move([Entry(name) for name in names])
    assert asked.count("operations/stat") + asked.count("operations/purge") == 2 * replacing.UNANSWERED
    assert len(notes) == 1


def test_only_servers_that_lose_files_get_them_moved() -> None:
    def asked(kind: str, **options: str) -> bool:
        return replacing.is_needed(specification(kind, "http://dav.example", options=options))

    assert [asked("webdav"), asked("webdav", vendor="other"), asked("rclone", type="webdav")] == [True] * 3
    assert [asked("webdav", vendor="nextcloud"), asked("rclone", type="webdav", vendor="owncloud")] == [False] * 2
    assert [asked("sftp"), asked("s3"), asked("rclone", type="ftp")] == [False] * 3
