"""What a backup does not keep is named, and so is what is kept though it is no file of its source's users."""

from pathlib import Path

from engines.kinds import RULES
from engines.not_kept import not_kept
from engines.rclone.restore_folders import LEFT
from sources.models.source import SourceKind
from tests.engines.peers import back_up, held, local_folder, write_files
from tests.engines.webdav_shares import Share


def test_every_kind_says_what_is_lost_of_it_and_a_bucket_has_no_empty_folders() -> None:
    for kind in SourceKind:
        assert not_kept(kind)
        assert ("empty folders" in not_kept(kind, "s3")) == (not RULES[kind].is_database)
        assert "empty folders" not in not_kept(kind, "sftp")


def test_folders_that_a_killed_restore_has_left_are_kept_like_others_and_named(tmp_path: Path) -> None:
    left = {"docs/backupsched-restore-0123abcd", ".restore-20261121T065755Z.0123456789abcdef.unfinished"}
    others = {"backupsched-restore-0123abcd.old", "backupsched-restore-mine", "docs/.restore-mine.unfinished"}
    texts = {f"{each}/a": each for each in left | others}
    with Share(**{path: text.encode() for path, text in texts.items()}).served() as share:
        for source in (share, local_folder(write_files(tmp_path / "files", **texts))):
            result = back_up(source, tmp_path / source.kind)
            assert held(tmp_path / source.kind) == texts
            assert len(result.warnings) == 1, result
            assert {*result.warnings[0].removeprefix(f"{LEFT}: ").split(", ")} == left
