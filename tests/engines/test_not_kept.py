from engines.kinds import RULES
from engines.not_kept import not_kept
from sources.models.source import SourceKind


def test_every_kind_says_what_is_lost_of_it_and_a_bucket_has_no_empty_folders() -> None:
    for kind in SourceKind:
        assert not_kept(kind)
        assert ("empty folders" in not_kept(kind, "s3")) == (not RULES[kind].is_database)
        assert "empty folders" not in not_kept(kind, "sftp")
