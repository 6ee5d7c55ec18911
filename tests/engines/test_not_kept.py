"""What a backup does not keep is named, and so is what is kept though it is no file of its source's users."""

from pathlib import Path

from engines.kinds import RULES
from engines.not_kept import not_kept
from engines.rclone.restore_folders import LEFT
from sources.models.source import SourceKind
from tests.engines.peers import local_folder, tree, write_files
from tests.engines.restic_runs import FOLDER
from tests.engines.webdav_shares import Share
from tests.repositories import RepositoryHere, in_each_format


def test_every_kind_says_what_is_lost_of_it_and_a_bucket_has_no_empty_folders() -> None:
    for kind in SourceKind:
        assert not_kept(kind)
        assert ("empty folders" in not_kept(kind, "s3")) == (not RULES[kind].is_database)
        assert "empty folders" not in not_kept(kind, "sftp")


@in_each_format
def test_folders_that_a_killed_restore_has_left_are_kept_like_others_and_named(format: str, tmp_path: Path) -> None:
    left = {
        "docs/backupsched-restore-0123abcd", ".restore-20261121T065755Z.0123456789abcdef.unfinished",
        "a/.restore-20261121T065755Z.0123456789abcdef.unfinished",
    }  # fmt: skip
    others = {"backupsched-restore-0123abcd.old", "backupsched-restore-mine", "docs/.restore-mine.unfinished"}
    kept = {f"{each}/a": each for each in left | others}
    files = kept | {"cache/backupsched-restore-0123abcd/a": "excluded"}
    (tmp_path / "files").mkdir()
    with Share(**{path: text.encode() for path, text in files.items()}).served() as share:
        for source in (share, local_folder(write_files(tmp_path / "files", **files))):
            (home := tmp_path / source.kind).mkdir()
            repository = RepositoryHere(format, home)
            result = repository.back_up(source, options={"exclude": ["/cache"]})
            assert (result.files, len(result.warnings)) == (len(kept), 1), result
            assert {*result.warnings[0].removeprefix(f"{LEFT}: ").split(", ")} == left
            header = repository.store.header(FOLDER, "20261121T065755Z")
            assert header
            assert header.complete
            assert repository.restored(home / "back").failed == []
            assert tree(home / "back") == kept
