"""The imap engine against servers that hang, lie, send without end and drop connections: each gets its verdict, and
the next run has all."""

import os
import re
import threading
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engines.base import EngineResult, RunEnded, Verdict
from engines.imap import engine, fetching
from engines.imap.fetching import bring_up_to_date
from engines.imap.session import session_with
from engines.results import WARNINGS
from storage.points.files import path_in
from tests.engines.hostile_mailbox import Hostile, hostile_mailbox
from tests.engines.mailboxes import back_up
from tests.engines.peers import point, points
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow

TEXTS = {1: b"one\r\n", 2: b"two" * 1000, 3: b"x" * (2**20 + 5)}


def kept(directory: Path) -> list[bytes]:
    """The messages of the newest point."""
    copy = directory / "copy"
    held = point(copy, points(copy)[-1]).values() if points(copy) else ()
    files = (each for each in held if each.kind == "file" and "cur/" in each.path)
    return sorted(Path(os.fsdecode(path_in(copy / "files", each.place))).read_bytes() for each in files)


def when(command: str, answer: bytes) -> Callable[[str], bytes | None]:
    return lambda found: answer if re.match(command, found) else None


def run(server: Hostile, directory: Path, **fields: object) -> EngineResult:
    return back_up(server.source(), directory / "copy", **fields)


LINE = b"* 1 FETCH (FLAGS (" + b"x" * 9000 + b"))\r\n"
FAULTS = (
    ("LOGIN", b"TAG NO [AUTHENTICATIONFAILED] no\r\n", Verdict.SOURCE_FAILED, "refused the credentials"),
    ("LOGIN", b"TAG NO [UNAVAILABLE] later\r\n", Verdict.UNAVAILABLE, "not ready"),
    ("LOGIN", b"* BYE too many connections\r\n", Verdict.UNAVAILABLE, "hung up"),
    ("LOGIN", b"HTTP/1.1 400 Bad Request\r\nServer: secret banner\r\n", Verdict.SOURCE_FAILED, "does not speak IMAP"),
    ("LIST", b"TAG OK none\r\n", Verdict.SOURCE_FAILED, "lists no folder"),
    ("UID.*BODY", b"* 1 FETCH (UID 1 BODY[]<0> {5}\r\non", Verdict.UNAVAILABLE, "hung up"),
    ("UID.*BODY", b"* 1 FETCH (BODY[] {1099511627776}\r\n" + bytes(9), Verdict.SOURCE_FAILED, "sends more"),
    ("FETCH", LINE * 4_000, Verdict.SOURCE_FAILED, "sends more"),
    ("EXAMINE", b"TAG NO [SERVERBUG] sorry\r\n", Verdict.WARNINGS, "INBOX: the folder was not read"),
    ("EXAMINE", b"* 4000000000 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\nTAG OK x\r\n", Verdict.WARNINGS, "4,000,000,000"),
    ("EXAMINE", b"* 3 EXISTS\r\nTAG OK x\r\n", Verdict.WARNINGS, "no UIDVALIDITY"),
    ("UID.*SIZE", b"* 1 FETCH (UID 2 RFC822.SIZE 9999999999)\r\nTAG OK x\r\n", Verdict.WARNINGS, "9,999,999,999"),
    (r"UID FETCH \S*2.*BODY", b"TAG NO broken\r\n", Verdict.WARNINGS, "INBOX, UID 2: the message was not"),
)


@pytest.mark.parametrize(
    ("user", "secret", "auth", "sent"),
    [
        ('a "b" \\c', 'p"w\\', "login", ['LOGIN "a \\"b\\" \\\\c" "p\\"w\\\\"']),
        ("ann", "pä", "login", ["AUTHENTICATE PLAIN", b64encode(b"\0ann\0p\xc3\xa4").decode()]),
        ("ann", "t", "xoauth2", ["AUTHENTICATE XOAUTH2", b64encode(b"user=ann\1auth=Bearer t\1\1").decode()]),
    ],
)
def test_a_login_says_each_letter_of_user_and_secret(user: str, secret: str, auth: str, sent: list[str]) -> None:
    with hostile_mailbox(messages={}) as server:
        source = replace(server.source(user=user, auth=auth), secret=secret)
        with session_with(source, PATIENCE, PATIENCE, lambda size: None):
            pass
        commands = [each for each in server.commands if each != "CAPABILITY"]
        assert commands[: len(sent)] == sent


def test_each_fault_gets_its_verdict_and_the_run_after_all_has_all(tmp_path: Path) -> None:
    with hostile_mailbox(messages=dict(TEXTS)) as server:
        for command, answer, verdict, text in FAULTS:
            server.fault = when(command, answer)
            result = run(server, tmp_path)
            assert result.verdict is verdict, (command, answer[:60], result)
            assert text in " ".join((result.error, *result.warnings)), result
            assert "banner" not in result.error
        assert kept(tmp_path) == [TEXTS[1], TEXTS[3]]  # only the last fault was about one message
        server.fault = lambda command: None
        result = run(server, tmp_path)
    assert (result.verdict, result.read) == (Verdict.SUCCEEDED, len(TEXTS[2])), result
    assert kept(tmp_path) == sorted(TEXTS.values())


def test_nothing_is_removed_on_a_doubt_and_a_folder_that_goes_meanwhile_is_gone(tmp_path: Path) -> None:
    folder = b'() "/" Gone'
    with hostile_mailbox(messages=dict(TEXTS)) as server:
        server.folders.append(folder)
        assert run(server, tmp_path).files == 6
        server.fault = when("FETCH", b"* 1 FETCH (UID 1 FLAGS (\\Seen))\r\nTAG OK all\r\n")  # one of three
        result = run(server, tmp_path)
        text = "INBOX: its server announces 3 messages and lists 1: the others were not fetched"
        assert (result.files, result.warnings[1]) == (6, text), result

        def goes(command: str) -> bytes | None:
            if command.startswith('EXAMINE "Gone"'):
                server.folders.remove(folder)
                return b"TAG NO [NONEXISTENT] gone\r\n"
            return None

        server.fault = goes
        result = run(server, tmp_path)
    assert (result.verdict, result.files, result.removed) == (Verdict.SUCCEEDED, 3, 3), result


def test_what_its_server_does_not_describe_is_named_and_thousands_of_warnings_end_no_run(tmp_path: Path) -> None:
    with hostile_mailbox(messages={uid: b"%d" % uid for uid in range(1, 1_001)}) as server:
        described = b"".join(server.fetched(uid, "SIZE") for uid in server.messages if uid != 7)
        server.fault = when("UID FETCH 1,.*SIZE", described + b"TAG OK done\r\n")
        result = run(server, tmp_path)
        text = "INBOX, UID 7: the message was not fetched: its server does not report its size"
        assert (result.verdict, result.files, result.warnings) == (Verdict.WARNINGS, 999, (text,)), result
        server.validity = 8
        server.fault = when("UID.*BODY", "TAG NO [SERVERBUG] \U0001f4a5 {}\r\n".format("\u0444" * 99).encode())
        result = run(server, tmp_path)
    assert result.warnings[0] == "1,000 messages or folders were not fetched as they are; the first:", result
    assert len(result.warnings) == WARNINGS
    assert result.warnings[1].startswith("INBOX, UID 1: the message was not fetched: [SERVERBUG]")
    assert result.files == 999, "what came under the old numbers stays until it has come under the new ones"


def test_what_is_larger_than_may_be_is_left_out_and_too_many_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "CHUNK", 1_000)
    monkeypatch.setattr(fetching, "LARGEST", 2_500)
    monkeypatch.setattr(fetching, "MOST_FOLDERS", 2)

    def fetched() -> list[str]:
        with session_with(server.source(), PATIENCE, PATIENCE, lambda size: None) as session:
            bring_up_to_date(session, server.source(), tmp_path, found := fetching.FetchProgress())
            return found.warnings

    lie = b'* 1 FETCH (UID %d RFC822.SIZE 9 INTERNALDATE "03-Feb-2020 04:05:06 +0000")\r\n'
    with hostile_mailbox(messages={1: b"a" * 2_500, 2: b"b" * 2_501, 3: b"c"}) as server:
        assert fetched() == ["INBOX, UID 2: it has 2,501 bytes, and 2,500 is the most"]
        server.messages[4] = b"d" * 10_000
        server.fault = when("UID FETCH 2,4 .*SIZE", lie % 2 + lie % 4 + b"TAG OK lies\r\n")
        assert fetched() == [
            f"INBOX, UID {uid}: the message was not fetched: more than 2,500 bytes come" for uid in (2, 4)
        ]
        assert [each for each in server.commands if "UID FETCH 4" in each][-1].endswith("<2000.1000>)")
        assert sorted(path.read_bytes()[:1] for path in tmp_path.rglob("*") if path.is_file()) == [b"a", b"c"]
        server.folders += [b'() "/" b', b'() "/" c']
        with pytest.raises(RunEnded, match="the server lists 3 folders, and 2 is the most"):
            fetched()


def test_what_hangs_is_given_up_and_a_stop_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, stop = threading.Event(), threading.Event()

    def hang(command: str) -> bytes | None:
        if command.startswith("FETCH"):
            hanging.set()
            threading.Event().wait()
        return None

    with hostile_mailbox(messages=dict(TEXTS), fault=hang) as server:
        threading.Thread(target=lambda: (hanging.wait(), stop.set()), daemon=True).start()
        result = run(server, tmp_path, stop=stop)
        assert result.verdict is Verdict.STOPPED, result
        monkeypatch.setattr(engine, "IDLE_SECONDS", 0.3)
        result = run(server, tmp_path)
        assert (result.verdict, "does not answer" in result.error) == (Verdict.UNAVAILABLE, True), result
        server.greeting = b""
        result = run(server, tmp_path, connect_timeout=1.0)
        assert result.verdict is Verdict.UNAVAILABLE, result


def test_no_password_is_sent_where_starttls_is_taken_away(tmp_path: Path) -> None:
    with hostile_mailbox(messages={}) as server:
        result = back_up(server.source(tls="starttls"), tmp_path / "copy")
        assert (result.verdict, "no password was sent" in result.error) == (Verdict.SOURCE_FAILED, True), result
        assert server.commands == ["CAPABILITY"]


def test_hostile_names_of_folders_stay_inside_the_copy(tmp_path: Path) -> None:
    names = [b'"../../etc"', b'"/abs"', b'"work"', b'"Work"', b'"a/cur/b"', b'"nul\\\\"', b"{6}\r\nx\0\r\nyz", b"&ANw-"]
    with hostile_mailbox(messages={1: b"x"}, folders=[b'() "/" ' + each for each in names]) as server:
        result = run(server, tmp_path)
    assert result.verdict is Verdict.WARNINGS, result
    assert any("no command can hold its name" in each for each in result.warnings), result
    assert result.files == len(names) - 1
    assert {each.name for each in tmp_path.iterdir()} == {"copy", "staging"}
    assert len({str(each).casefold() for each in (tmp_path / "copy/files").rglob("cur/*")}) == len(names) - 1
