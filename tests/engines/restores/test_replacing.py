"""A restore that replaces files of a WebDAV share leaves the old one or the new one, whole, whatever fails."""

from pathlib import Path

import pytest

from engines.restores import replacing, to_source
from storage.restoring.base import Wish
from tests.engines.faulty_webdav import HALF, NOT_ANSWERED, NOT_DONE, faulty_share
from tests.engines.peers import specification, write_files
from tests.storage.building import ASSIGNMENT, Built

OLD, NEW, LARGE = "old " * 50, "new", "new, and large enough to go straight there"
LEFT = "docs/backupsched-restore-0123abcd"
FAULTS = {
    "half": ("PUT", HALF), "no-answer": ("PUT", NOT_ANSWERED), "no-room": ("PUT", 507), "locked": ("MOVE", 423),
    "moved": ("MOVE", NOT_ANSWERED), "broken": ("MOVE", NOT_DONE), "large": ("MOVE", 403), "dropped": ("MOVE", 500),
    "folder": ("PUT", None),
}  # fmt: skip
"""Files of a share, each with the method that fails there, and how. One is dropped by the server when it fails, and one
becomes a folder in the meantime.
"""


@pytest.mark.slow
def test_what_fails_leaves_the_old_file_or_the_new_one_and_what_was_killed_is_cleared_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(to_source, "SCRATCH_BYTES", 2 * len(NEW) * len(FAULTS))
    built, share = Built(tmp_path / "built"), tmp_path / "share"
    (share / LEFT).mkdir(parents=True)
    (share / "other").mkdir()
    (share / LEFT / "fine").write_text("by a restore that was killed")
    for name in ("fine", *FAULTS):
        path = f"other/{name}" if name == "dropped" else f"docs/{name}"
        built.write(path, LARGE * 10 if name == "large" else NEW)
        (share / path).write_text(OLD)
    wish = Wish(ASSIGNMENT, built.back_up(), Path(), overwrite=True)

    def spoil(method: str, path: str) -> str | int | None:
        name = path.rpartition("/")[2]
        if FAULTS.get(name, ("",))[0] != method:
            return None
        if name == "dropped":
            (share / "other" / name).unlink(missing_ok=True)
        elif name == "folder":
            (share / "docs" / name).unlink()
            write_files(share / "docs" / name, inside=OLD)
        return FAULTS[name][1]

    with faulty_share(share, spoil) as source:
        report = to_source.put_back(wish, built.store, source, built.folder / "cache", lambda step: None)
    found = {str(each.relative_to(share)): each.read_text() for each in share.rglob("*") if each.is_file()}
    [kept] = [each for each in found if each.endswith("/dropped")]
    new = {"docs/fine", "docs/moved", kept}
    others = {f"docs/{name}" for name in FAULTS.keys() - {"moved", "dropped", "folder"}}
    assert found == dict.fromkeys(new, NEW) | dict.fromkeys(others | {"docs/folder/inside"}, OLD)
    assert {each.name for each in share.rglob("*") if each.is_dir()} == {"docs", "folder", "other", kept.split("/")[1]}
    failed = {path: why for path, _, why in (each.partition(": ") for each in report.failed)}
    assert failed.keys() == others | {"other/dropped", "docs/folder"}, report
    assert kept.rpartition("/")[0] in failed["other/dropped"]
    assert (report.files, report.failed_files) == (2, len(failed))


def test_only_servers_that_lose_files_get_them_moved() -> None:
    def asked(kind: str, **options: str) -> bool:
        return replacing.is_needed(specification(kind, "http://dav.example", options=options))

    assert [asked("webdav"), asked("webdav", vendor="other"), asked("rclone", type="webdav")] == [True] * 3
    assert [asked("webdav", vendor="nextcloud"), asked("rclone", type="webdav", vendor="owncloud")] == [False] * 2
    assert [asked("sftp"), asked("s3"), asked("rclone", type="ftp")] == [False] * 3
