"""A mailbox and an FTP server as a worker meets them: asked, tried by a user, copied, lost."""

from pathlib import Path
from typing import Any

import pytest

from backups.connection_check import try_source
from jobs.outcomes import Handoff, Succeeded, Unavailable
from sources.models import Assignment, Repository
from tests.backups.handled import ask, copy
from tests.engines import mailboxes
from tests.engines.peers import PASSWORD, USER, serving, write_files
from tests.sources.factories import make_assignment, make_policy, make_source
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


def test_they_are_asked_tried_copied_and_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.VAR_DIR = tmp_path / "var"
    monkeypatch.setenv("BACKUP_SECRET_OF_BOTH", PASSWORD)
    (tmp_path / "repository").mkdir()
    repository = Repository.objects.create(name="office", location=str(tmp_path / "repository"))
    policy = make_policy(repository=repository, connect_timeout=PATIENCE)
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
