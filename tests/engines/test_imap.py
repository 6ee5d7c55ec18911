"""The imap engine against a real dovecot: what it fetches, keeps and counts, and what comes back."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engines.base import EngineResult, Verdict
from storage.places.location import of_directory
from storage.points.store import Store
from storage.restoring import into_folder
from storage.restoring.base import Wish
from tests.engines.mailboxes import RECEIVED, Mailbox, access_token, back_up, dovecot
from tests.engines.peers import STARTED_AT

pytestmark = pytest.mark.slow

HOSTILE = {
    "..": "%2E.", "cur": "%63ur", "a:b*c": "a%3Ab%2Ac", '"q"\\': "%22q%22%5C", "Work": "Work%~96b0a3", "work": "work",
    "&ZeVnLIqe-": "日本語", "new": "%6Eew",
}  # fmt: skip


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    with dovecot() as box:
        yield box


def message(number: int, size: int = 0) -> bytes:
    head = f"From: a@example.org\r\nSubject: message {number}\r\n\r\nbody {number}\r\n"
    return head.encode() + os.urandom(size // 2).hex().encode()


class Copies:
    """Runs of one assignment, a day apart, and what is restored of them."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.days = directory, 0

    def run(self, mailbox: Mailbox, **options: str) -> EngineResult:
        self.days += 1
        started_at = STARTED_AT + timedelta(days=self.days)
        return back_up(mailbox.source(**options), self.directory / "repository/copy", started_at=started_at)

    def restored(self, point: str) -> dict[str, list[bytes]]:
        """Directory → its messages, sorted."""
        target = self.directory / point
        store = Store(of_directory(self.directory / "repository"), threading.Event())
        into_folder.restore(Wish("copy", point, target, ()), store, self.directory / "cache")
        found = defaultdict(list)
        for file in target.rglob("cur/*"):
            found[str(file.parent.parent.relative_to(target))].append(file.read_bytes())
            assert file.stat().st_mtime == RECEIVED.timestamp()
        return {name: sorted(texts) for name, texts in found.items()}


def test_a_mailbox_comes_back_byte_for_byte_as_of_each_point(mailbox: Mailbox, tmp_path: Path) -> None:
    copies = Copies(tmp_path)
    mailbox.deliver("INBOX", *map(message, range(120)))
    mailbox.deliver("Archive/2020", message(1, 3_000_000), message(2, 2**20 - 40), b"From: x\r\n\r\n")
    mailbox.deliver("&AOQ-", message(7), flags="(\\Seen \\Flagged)")
    first, expected = copies.run(mailbox), mailbox.content()
    assert (first.verdict, first.files) == (Verdict.SUCCEEDED, 124), first.error
    assert first.read == first.size == sum(len(text) for texts in expected.values() for text in texts)

    mailbox.deliver("INBOX", message(999))
    with mailbox.client() as client:
        client.select("INBOX")
        client.store("1:2", "+FLAGS", "\\Deleted")
        client.expunge()
        client.store("1:3", "+FLAGS", "(\\Seen $Label1)")
        client.delete("&AOQ-")
    second = copies.run(mailbox, secret=access_token(timedelta(hours=1)), auth="xoauth2", tls="starttls")
    assert (second.verdict, second.files, second.read) == (Verdict.WARNINGS, 122, len(message(999))), second.error
    assert (second.warnings, second.doubt) == (
        ("the server no longer lists the folder ä, with 1 message, so it leaves the copy",),
        "",
    )
    assert (second.new, second.unchanged, second.removed) == (1 + 3, 118, 2 + 3 + 1)  # a flag is in the name

    with mailbox.client() as client:  # another folder of the same name: its UIDs mean other messages
        client.delete("Archive/2020")
    mailbox.deliver("Archive/2020", message(3))
    third = copies.run(mailbox, tls="none", leave_out="Trash, inbox")
    assert (third.verdict, third.files, third.read) == (Verdict.SUCCEEDED, 1, len(message(3))), third.error

    assert copies.restored(third.snapshot) == {"Archive/2020": [message(3)]}
    assert copies.restored(first.snapshot) == {name.replace("&AOQ-", "ä"): texts for name, texts in expected.items()}
    stranger = copies.run(mailbox, sslrootcert="system")
    assert (stranger.verdict, "certificate is not trusted" in stranger.error) == (Verdict.SOURCE_FAILED, True), stranger

    late = access_token(timedelta(hours=-1))
    refused = copies.run(mailbox, secret=late, auth="xoauth2")
    assert (refused.verdict, "refused the access token" in refused.error) == (Verdict.SOURCE_FAILED, True), refused
    assert late not in refused.error

    copies.restored(second.snapshot)
    assert sum(name.endswith(":2,S") for name in os.listdir(tmp_path / second.snapshot / "INBOX/cur")) == 3


def test_a_folder_that_is_no_longer_listed_is_doubtful_unless_it_came_under_another_name(tmp_path: Path) -> None:
    copies = Copies(tmp_path)
    with dovecot() as mailbox:
        mailbox.deliver("INBOX", *map(message, range(30)))
        mailbox.deliver("Archive", *map(message, range(12)))
        assert copies.run(mailbox).files == 42
        with mailbox.client() as client:
            client.rename("Archive", "Kept")
        renamed = copies.run(mailbox)
        assert (renamed.files, "no longer lists the folder Archive" in renamed.warnings[-1]) == (42, True), renamed
        assert renamed.doubt == ""
        left_out = copies.run(mailbox, leave_out="Kept")
        assert (left_out.warnings, left_out.doubt) == ((), ""), "that is a decision of people"
        assert copies.run(mailbox).files == 42
        with mailbox.client() as client:
            client.delete("Kept")
        lost = copies.run(mailbox)
        assert lost.doubt == "its server no longer lists folders that had 12 messages", lost
