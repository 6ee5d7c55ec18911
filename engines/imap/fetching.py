"""Brings the copy of a mailbox up to date: new messages are fetched, deleted ones are removed, flags are renamed.

The server lists the UIDs and flags of each folder, and a run without new messages asks for nothing else. New messages
come in batches, sized by what their server announces; a message that is larger than a chunk, or than it was announced,
comes in chunks. A message that cannot be fetched is a warning, and so is a folder; the copy keeps the parts that it
has.

A separate process does this (`mail_process.py`).
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines.base import RunEnded, SourceSpec, Verdict
from engines.imap import folders
from engines.imap.answers import FLAGS, IS_PIECE, SIZE, UID, Mail, mails_of, number_of, received_at, set_of
from engines.imap.folders import Folder
from engines.imap.maildir import Maildir, MessageKey, letters_of, messages_by_directory, remove_others
from engines.imap.session import MailboxRefused, Session, session_with
from engines.results import WARNING_LENGTH, WARNINGS
from external.formatting import several
from external.processes.serving import say

SAY_EVERY_SECONDS = 0.5
LISTED_AT_ONCE = 1_000
FETCHED_AT_ONCE = 200
BATCH_BYTES = 8 * 2**20
CHUNK = 2**20
LARGEST = 512 * 2**20
"""The most bytes of a message. Providers accept 150 MB at the most."""
MOST_MESSAGES = 5_000_000
"""The most messages in a folder: a server could announce four thousand million and have none."""
MOST_FOLDERS = 10_000


@dataclass
class FetchProgress:
    """The progress so far: messages and their bytes. `received`: bytes of all answers. `warnings`: the first ones;
    `warned`: the number of all. `lost`: messages of folders that are no longer listed, and did not come again under
    another name.
    """

    received: int = 0
    messages: int = 0
    size: int = 0
    warned: int = 0
    lost: int = 0
    warnings: list[str] = field(default_factory=list)
    said_at: float = 0.0

    def receive(self, size: int) -> None:
        self.received += size
        if (now := time.monotonic()) >= self.said_at + SAY_EVERY_SECONDS:
            self.said_at = now
            say({"received": self.received, "messages": self.messages})

    def warn(self, text: str) -> None:
        self.warned += 1
        if len(self.warnings) < WARNINGS:
            self.warnings.append(text[:WARNING_LENGTH])
            say({"warning": self.warnings[-1]})


def fetch(source: dict[str, Any], directory: str, connect: float, idle: float) -> dict[str, int]:
    """Bring a directory up to date. `connect`, `idle`: seconds, for a connection and for each answer. Reports its
    progress and its warnings. Raises: RunEnded.
    """
    mailbox, found = SourceSpec(**source), FetchProgress()
    with session_with(mailbox, connect, idle, found.receive) as session:
        bring_up_to_date(session, mailbox, Path(directory), found)
    return {"size": found.size, "warned": found.warned, "lost": found.lost}


def count_folders(source: dict[str, Any], connect: float, idle: float) -> int:
    """The number of folders that would be fetched. Raises: RunEnded."""
    mailbox = SourceSpec(**source)
    with session_with(mailbox, connect, idle, FetchProgress().receive) as session:
        return len(wanted_of(listed_folders(session), mailbox))


def bring_up_to_date(session: Session, source: SourceSpec, root: Path, found: FetchProgress) -> None:
    """Make `root` hold a copy of the mailbox. Raises: RunEnded."""
    listed = listed_folders(session)
    wanted = wanted_of(listed, source)
    had = messages_by_directory(root)
    directories, refused = folders.directories(wanted), dict[bytes, str]()
    for folder in wanted:
        copy = _FolderFetch(session, folder, Maildir(root / directories[folder.raw]), found)
        try:
            copy.update()
        except MailboxRefused as error:
            refused[folder.raw] = f"{folder.title}: the folder was not read: {error}"
    there = {each.raw for each in wanted_of(listed_folders(session), source)} if refused else set()
    for raw, text in refused.items():
        if raw in there:
            found.warn(text)
        else:
            del directories[raw]
    new = sum(number for each, number in messages_by_directory(root).items() if each not in had)
    gone = {
        each: number for each, number in had.items() if number and each not in folders.every_directory(listed, wanted)
    }
    for each, number in gone.items():
        found.warn(
            f"the server no longer lists the folder {each}, with {several(number, 'message')}, so it leaves the copy"
        )
    remove_others(root, set(directories.values()))
    # a renamed folder comes again under another name
    found.lost = sum(gone.values()) if sum(gone.values()) > new else 0


def listed_folders(session: Session) -> list[Folder]:
    """All folders with messages. Raises: RunEnded if there are none."""
    found = folders.parse(session.folders())
    if len(found) > MOST_FOLDERS:
        raise RunEnded(
            Verdict.SOURCE_FAILED, f"the server lists {len(found):,} folders, and {MOST_FOLDERS:,} is the most"
        )
    if not found:
        raise RunEnded(Verdict.SOURCE_FAILED, "the server lists no folder, but every mailbox has one")
    return found


def wanted_of(found: list[Folder], source: SourceSpec) -> list[Folder]:
    """The folders that a source covers. Raises: RunEnded if its path is not one of them."""
    left_out = [each.strip() for each in str(source.options.get("leave_out", "")).split(",") if each.strip()]
    if source.path:
        found = [each for each in found if each.is_below(source.path)]
    if not found:
        text = f"there is no folder {source.path!r} in the mailbox: check the path of {source.name!r}"
        raise RunEnded(Verdict.SOURCE_FAILED, text)
    return [each for each in found if not any(each.is_below(title) for title in left_out)]


class _FolderFetch:
    """The copy of one folder."""

    def __init__(self, session: Session, folder: Folder, maildir: Maildir, found: FetchProgress) -> None:
        self._session, self._folder, self._maildir, self._found = session, folder, maildir, found

    def update(self) -> None:
        """Bring the copy up to date. Raises: MailboxRefused if the folder cannot be read."""
        if any(byte in self._folder.raw for byte in b"\r\n\0"):
            raise MailboxRefused("no command can hold its name")
        warned = self._found.warned
        number, flags = self._look()
        if len(flags) < number:  # some were just deleted, or two share a UID, or it hides some
            number, flags = self._look()
        if len(flags) < number:
            text = f"its server announces {number:,} messages and lists {len(flags):,}: the others were not fetched"
            self._found.warn(f"{self._folder.title}: {text}")
        for uid, letters in flags.items():
            if (key := MessageKey(self._validity, uid)) in self._maildir:
                self._maildir.flag(key, letters)
        new = [uid for uid in flags if MessageKey(self._validity, uid) not in self._maildir]
        for start in range(0, len(new), FETCHED_AT_ONCE):
            self._fetch(new[start : start + FETCHED_AT_ONCE], flags)
        if len(flags) == number:  # otherwise the server has not listed all, and the next run sees deletions
            # messages under the old numbers of a folder that was renumbered stay until all of it has come
            old = self._maildir.of_others(self._validity) if self._found.warned > warned else set()
            self._maildir.keep_only({MessageKey(self._validity, uid) for uid in flags} | old)

    def _look(self) -> tuple[int, dict[int, str]]:
        """The number of messages in the folder, and the flags of those that are listed, by UID."""
        self._validity, number = self._session.examine(self._folder.raw)
        if number > MOST_MESSAGES:
            raise MailboxRefused(f"its server announces {number:,} messages, and {MOST_MESSAGES:,} is the most")
        return number, self._listed(number)

    def _listed(self, number: int) -> dict[int, str]:
        """The flags of all messages, as a Maildir's letters, by UID."""
        found = {}
        for first in range(1, number + 1, LISTED_AT_ONCE):
            last = min(first + LISTED_AT_ONCE - 1, number)
            lines = mails_of(self._session.fetch(f"{first}:{last}", "(UID FLAGS)"))
            if not lines:
                raise MailboxRefused(
                    f"its server does not list messages {first} to {last} of the {number:,} that it announced"
                )
            for mail in lines:
                if (uid := number_of(UID, mail.text)) and (flags := FLAGS.search(mail.text)):
                    found[uid] = letters_of(flags[1].decode(errors="replace").split())
        return found

    def _fetch(self, uids: list[int], flags: dict[int, str]) -> None:
        """Fetch these messages in batches of bounded size."""
        facts: dict[int, tuple[int, float]] = {}
        for mail in mails_of(self._session.fetch_uids(set_of(uids), "(UID RFC822.SIZE INTERNALDATE)")):
            if uid := number_of(UID, mail.text):
                facts[uid] = number_of(SIZE, mail.text), received_at(mail.text)
        batch: list[int] = []
        size = 0
        for uid in uids:
            if uid not in facts:
                if self._is_there(uid):  # else it has just been deleted
                    self._warn(uid, "the message was not fetched: its server does not report its size")
                continue
            if facts[uid][0] > LARGEST:
                self._warn(uid, f"it has {facts[uid][0]:,} bytes, and {LARGEST:,} is the most")
                continue
            batch.append(uid)
            size += facts[uid][0]
            if size >= BATCH_BYTES:
                self._fetch_batch(batch, flags, facts)
                batch, size = [], 0
        self._fetch_batch(batch, flags, facts)

    def _fetch_batch(self, uids: list[int], flags: dict[int, str], facts: dict[int, tuple[int, float]]) -> None:
        bodies: dict[int, Mail] = {}
        with suppress(MailboxRefused):  # one message may be unreadable for the server
            bodies = self._bodies(uids)
        for uid in uids:
            try:
                mail = bodies.pop(uid, None) or self._bodies([uid]).get(uid)
                if mail is None:
                    if self._is_there(uid):
                        raise MailboxRefused("its server does not send it")
                    continue
                announced, received_at = facts[uid]
                size = self._maildir.keep(
                    MessageKey(self._validity, uid), flags[uid], received_at, self._pieces(uid, mail)
                )
            except MailboxRefused as error:
                self._warn(uid, f"the message was not fetched: {error}")
                continue
            self._found.messages += 1
            self._found.size += size
            if not announced / 2 <= size <= 2 * announced + CHUNK / 16:
                self._warn(uid, f"its server announced {announced:,} bytes and sent {size:,}; these are kept")

    def _bodies(self, uids: list[int]) -> dict[int, Mail]:
        """The first chunks of the messages, by UID, as far as they come."""
        if not uids:
            return {}
        answered = mails_of(self._session.fetch_uids(set_of(uids), f"(UID BODY.PEEK[]<0.{CHUNK}>)"))
        return {uid: each for each in answered if each.body is not None and (uid := number_of(UID, each.text)) in uids}

    def _pieces(self, uid: int, mail: Mail) -> Iterator[bytes]:
        piece, offset = mail.body or b"", 0
        whole = not IS_PIECE.search(mail.text)  # a server may not support chunks
        while piece:
            offset += len(piece)
            if offset > LARGEST:
                raise MailboxRefused(f"more than {LARGEST:,} bytes come")
            yield piece
            if whole or len(piece) < CHUNK:
                return
            answered = mails_of(self._session.fetch_uids(str(uid), f"(UID BODY.PEEK[]<{offset}.{CHUNK}>)"))
            piece = next((each.body for each in answered if each.body is not None), b"")

    def _is_there(self, uid: int) -> bool:
        return any(number_of(UID, each.text) == uid for each in mails_of(self._session.fetch_uids(str(uid), "(UID)")))

    def _warn(self, uid: int, text: str) -> None:
        self._found.warn(f"{self._folder.title}, UID {uid}: {text}")
