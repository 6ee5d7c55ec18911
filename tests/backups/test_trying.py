"""*Test connection* with real peers of each kind: what it finds, and what it says of a wrong password."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from backups.connection_check import try_source
from engines.base import SourceSpec
from sources.models import Source
from tests.backups.restores.databases_here import database_of_the_tests
from tests.engines.peers import local_folder, s3_bucket, sftp_host, webdav_share, write_files

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True), pytest.mark.own_process]

FIELDS = ("kind", "address", "port", "path", "options", "host_key")
FOLDER = "1 entry in its topmost folder"


def source_of(peer: SourceSpec) -> Source:
    secret = "env:BACKUP_SECRET_PEER" if peer.secret else ""
    return Source(name=peer.name, secret=secret, **{name: getattr(peer, name) for name in FIELDS})


def test_each_kind_says_what_it_reads_and_what_is_wrong(tmp_path: Path, monkeypatch, settings) -> None:
    settings.FOLDERS = [str(tmp_path)]
    postgresql = database_of_the_tests()
    files = write_files(tmp_path / "files", **{"photos/a.txt": "a"})
    with ExitStack() as peers:
        found = [
            (local_folder(files), FOLDER),
            (peers.enter_context(sftp_host(files)), FOLDER),
            (peers.enter_context(s3_bucket(files)), FOLDER),
            (peers.enter_context(webdav_share(files)), FOLDER),
            (postgresql, f"pg_dump may read the database {postgresql.path}"),
        ]
        for peer, text in found:
            monkeypatch.setenv("BACKUP_SECRET_PEER", peer.secret or "")
            tried = try_source(source_of(peer))
            assert (tried.works, text in tried.text) == (True, True), tried
        for peer, _ in found[2:]:
            if peer.secret:
                monkeypatch.setenv("BACKUP_SECRET_PEER", "wr0ng")
                tried = try_source(source_of(peer))
                assert not tried.works, tried
                assert "wr0ng" not in tried.text
        gone = Source(name="gone", kind="s3", address="http://127.0.0.1:1", path="photos")
        assert "did not answer" in try_source(gone).text
