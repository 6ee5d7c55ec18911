"""*Test connection* with real peers of each kind: what it finds, and what it says of a wrong password; and sources of
the rarer kinds as a worker meets them."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from backups.connection_check import try_source
from engines.base import SourceSpec
from jobs.outcomes import Handoff, Succeeded, Unavailable
from sources.models import Assignment, Source
from tests.backups.handled import ask, copy
from tests.backups.restores.databases_here import database_of_the_tests
from tests.engines import mailboxes
from tests.engines.peers import PASSWORD, USER, local_folder, s3_bucket, serving, sftp_host, webdav_share, write_files
from tests.sources.factories import make_assignment, make_source, policy_into
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

FIELDS = ("kind", "address", "port", "path", "options", "host_key")
FOLDER = "1 entry in its topmost folder"


def source_of(peer: SourceSpec) -> Source:
    secret = "env:BACKUP_SECRET_PEER" if peer.secret else ""
    return Source(name=peer.name, secret=secret, **{name: getattr(peer, name) for name in FIELDS})


@pytest.mark.own_process
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


def test_a_mailbox_and_an_ftp_server_are_asked_tried_copied_and_lost(tmp_path: Path, monkeypatch, settings) -> None:
    settings.VAR_DIR = tmp_path / "var"
    monkeypatch.setenv("BACKUP_SECRET_OF_BOTH", PASSWORD)
    policy = policy_into(tmp_path / "repository", "office", connect_timeout=PATIENCE)
    files = write_files(tmp_path / "files", note="text")

    def assigned(**fields: Any) -> Assignment:
        return make_assignment(policy, make_source(**fields))

    reference = "env:BACKUP_SECRET_OF_BOTH"
    with mailboxes.dovecot() as box, serving("ftp", files, f"--user={USER}", f"--pass={PASSWORD}") as (host, port):
        box.deliver("INBOX", b"Subject: one\r\n\r\n")
        facts = {"address": box.address, "port": box.tls_port, "options": box.source().options}
        mail = assigned(kind="imap", path="", secret=reference, **facts)
        options = {"type": "ftp", "host": host, "port": str(port), "user": USER}
        ftp = assigned(kind="rclone", path="", options=options, secrets={"pass": reference})
        for assignment, found in ((mail, "1 folder of its mailbox may be read"), (ftp, "1 entry in its topmost")):
            assert isinstance(ask(assignment), Handoff)
            tried = try_source(assignment.source)
            assert (tried.works, found in tried.text) == (True, True), tried
            outcome = copy(assignment)
            assert isinstance(outcome, Succeeded), outcome
        copied = [each for each in (tmp_path / "repository").rglob("files/**/*") if each.is_file()]
        assert sorted(each.read_bytes() for each in copied) == [b"Subject: one\r\n\r\n", b"text"]
        monkeypatch.setenv("BACKUP_SECRET_OF_BOTH", "another")
        for assignment in (mail, ftp):
            tried = try_source(assignment.source)
            assert (tried.works, "refused the credentials" in tried.text) == (False, True), tried
    for assignment in (mail, ftp):
        assert isinstance(ask(assignment), Unavailable)
        assert isinstance(copy(assignment), Unavailable)
