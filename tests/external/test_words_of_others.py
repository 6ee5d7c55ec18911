"""What comes from outside is not passed on as it is: secrets, however they are spelled; advice of another program, for
whoever typed its command; and a server's own words, in the forms of rclone 1.75 and of restic."""

import base64
import html
import json
import time
from threading import Event
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engines.rclone.log import RcloneLog
from external.processes.advice import without_advice
from external.processes.repeated_texts import without_answers
from external.redaction import LONGEST, redacted
from storage.places.servers import explained
from storage.restic.program import StuckSignal
from storage.restic.verdicts import text_of, trouble_of

PINNED = (
    "sftp: host key mismatch for nas:22: server offered ssh-ed25519 key with fingerprint SHA256:x; pinned: SHA256:y"
)
RUN_AGAIN = " -- if the server key has changed legitimately, clear host_keys and re-run with --sftp-pin-host-key"
LOCKED = "unable to create lock in backend: repository is already locked by PID 1 on nas"
UPGRADED = (
    "unable to get drive_id and drive_type - if you are upgrading from older versions of rclone, please run "
    "`rclone config` and re-configure this backend"
)
OFFERED = (
    "sftp: server offered ssh-rsa key with fingerprint SHA256:x but no key is pinned for this algorithm in host_keys"
)
OF_OTHER_COMMANDS = ("--sftp-pin-host-key", "unlock", "rebuild-index", "rclone config", "--checksum", "known_hosts")


@pytest.mark.parametrize(
    ("stays", "advice"),
    [
        (PINNED, f"{RUN_AGAIN} "),
        (OFFERED, "; re-run with --sftp-pin-host-key to accept on first use"),
        (
            "Modtime compare was requested but at least one remote does not support it",
            ". It is recommended to use --checksum or --size-only instead.",
        ),
        (LOCKED, "; the `unlock` command can be used to remove stale locks"),
        ("tree 1f2e is not known; the repository could be damaged", ", run `rebuild-index` to try to repair it"),
        ("pack 1f2e: not found in index", "; run 'restic rebuild-index' to correct this"),
        (
            "Host key verification failed",
            ". Add correct host key in /home/a/.ssh/known_hosts to get rid of this message.",
        ),
        ("no space left on device", ""),
        ("open /srv/a--b/use --this.txt: permission denied", ""),
        ("couldn't connect SSH: dial tcp 10.0.0.1:22: i/o timeout", ""),
    ],
)
def test_what_is_wrong_stays_and_what_to_do_goes(stays: str, advice: str) -> None:
    told = without_advice(stays + advice)
    assert told.rstrip(".") == stays
    assert not any(each in told for each in OF_OTHER_COMMANDS)


def test_it_is_taken_out_of_what_each_program_says() -> None:
    assert not any(each in without_advice(UPGRADED) for each in OF_OTHER_COMMANDS)
    assert explained(PINNED + RUN_AGAIN) == PINNED, "of a repository"
    log = RcloneLog()
    log.take(json.dumps({"level": "error", "msg": PINNED + RUN_AGAIN}))
    assert log.everything[0].message == PINNED, "of a source"
    lines = ["Fatal: unable to create lock in backend", "run `restic unlock` to remove it"]
    assert text_of(lines) == "unable to create lock in backend"


LONG = {
    "clauses": "--x, if ,run ,run" * 2_000,
    "options": ",run --" * 5_000,
    "spaces": "restic " + " " * 15_000,
    "quotes": "run `" + "a -" * 10_000,
    "of a gate": "socks connect tcp a" + "->a" * 10_000,
    "of restic": "unable to open config file locks/0 data/0/" * 800,
}


@pytest.mark.parametrize("message", LONG.values(), ids=LONG)
def test_the_longest_message_of_a_server_is_looked_through_in_no_time(message: str) -> None:
    """Minutes, and hours of the first one, with expressions that try each part of a text from each other one."""
    began = time.process_time()
    log, restic = RcloneLog(), StuckSignal(Event(), None)
    log.take(json.dumps({"level": "error", "msg": message}))
    restic.take(lambda line: None, f"rclone: a b ERROR : {message} returned error, retrying after 1s")
    trouble_of(1, message)
    without_advice(message)
    assert time.process_time() - began < 10


LINE = "-" * 80
RULE = f"\n{LINE}\n"
TOKEN = 'Post "https://api.dropboxapi.com/2/files": couldn\'t fetch token: '
BODY = "<h1>private: page</h1>\nprivate: 418 x"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"read metadata failed: {BODY}: 403 private", "read metadata failed: the server answered 403 Forbidden"),
        (f"couldn't list files: {BODY}: 500 private: 200 OK", "couldn't list files: the server answered 500"),
        ("private message: private exception: 423 Locked", "the server answered 423 Locked"),
        (f"{BODY}: 403 private", "the server answered 403 Forbidden"),
        ('Attempt 1/1 failed with 1 errors and: {"private": 1}: 507 private', "the server answered 507 Insufficient"),
        ("error listing: failed to stat: HTTP Error: 403 private", "failed to stat: the server answered 403 Forbidden"),
        ("HTTP Error: 500: 500 private", "the server answered 500 Internal Server Error"),
        (f'failed to read version: HTTP error 403 (403 private) returned body: "{BODY}"', "version: the server"),
        ("failed to get user data: http error 404: 404 private", "user data: the server answered 404 Not Found"),
        (
            "operation error S3: ListObjects, https response error StatusCode: 403, RequestID: private, HostID: , "
            "api error AccessDenied: private",
            "operation error S3: ListObjects, https response error the server answered 403 Forbidden (AccessDenied)",
        ),
        (
            "operation error S3: PutObject, https response error StatusCode: 400, RequestID: private, HostID: private, "
            "api error AuthorizationHeaderMalformed: private; the region 'x' is wrong; expecting 'eu-central-1'",
            "the server answered 400 Bad Request (AuthorizationHeaderMalformed, expecting eu-central-1)",
        ),
        ("https response error StatusCode: 500, RequestID: private, HostID: private", "the server answered 500"),
        (
            f"GET http://10.0.0.1/s{RULE}RESPONSE 403: 403 private\nERROR CODE: AuthenticationFailed{RULE}{BODY}{RULE}",
            "the server answered 403 Forbidden (AuthenticationFailed)",
        ),
        (f"HEAD http://10.0.0.1/{RULE}RESPONSE 500: 500 private\nERROR CODE UNAVAILABLE{RULE}private", "answered 500"),
        (f"{TOKEN}oauth2: cannot fetch token: 403 private\nResponse: {BODY}", f"{TOKEN}the server answered 403"),
        (f'{TOKEN}oauth2: "private" "private \\"words\\""', f"{TOKEN}oauth2: refused"),
        (f'{TOKEN}oauth2: "invalid_grant" "private"', f"{TOKEN}oauth2: invalid_grant"),
        ("failed to authorize account: failed to authenticate: private (400 private)", "authenticate: the server answ"),
        ("failed to authorize account: failed to authenticate: Unknown 500 private (500 unknown)", "answered 500"),
        (
            f"Invalid response status! Got 403, expected [200]; headers: map[X:[private]], content: {BODY}",
            "the server answered 403 Forbidden",
        ),
        ("googleapi: Error 403: private, private", "the server answered 403 Forbidden"),
        ('malformed HTTP response "SSH-2.0-private"', "malformed HTTP response"),
        ('malformed MIME header line: "private \\" words"', "malformed MIME header line:"),
        ('error listing: can\'t parse content type "private"', "can't parse content type"),
        ("update: 530 private", "the server answered 530 of FTP"),
        ("Fatal: unable to open config file: server response unexpected: 500 private (500)", "file: the server answ"),
        ("Save(<lock/1>): unexpected HTTP response (403): 403 private", "Save(<lock/1>): the server answered 403"),
    ],
)
def test_the_words_of_a_server_are_taken_out_and_its_status_stays(message: str, shown: str) -> None:
    found = without_answers(message)
    assert "private" not in found.lower()
    assert shown in found


@pytest.mark.parametrize(
    "message",
    [
        "corrupted on transfer: sizes differ 404 vs 500",
        "open /srv/a: 404 b/c: permission denied",
        "mkdir /srv/x (500 y)/z: no space left on device",
        "source file is being updated (size changed from 400 to 500)",
        'Get "http://127.0.0.1:8404/": dial tcp 127.0.0.1:8404: connect: connection refused',
        "directory not found",
        "couldn't connect SSH: ssh: handshake failed: ssh: unable to authenticate, attempted methods [none password]",
        "wait: 200 files are left",
    ],
)
def test_what_no_server_said_stays(message: str) -> None:
    assert without_answers(message) == message


secrets = (
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=6, max_size=40)
    .map(str.strip)
    .filter(lambda text: len(text) >= 6)
)


@given(secrets)
@example("-----BEGIN KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU\nAAAAAAAAAAECAwQFBgc\n-----END KEY-----\n")
def test_no_spelling_of_a_secret_gets_through(secret: str) -> None:
    spellings = [
        secret, quote(secret, safe=""), quote_plus(secret), html.escape(secret), json.dumps(secret)[1:-1],
        repr(secret)[1:-1], secret.encode().hex(),
    ]  # fmt: skip
    for spelling in (*spellings, *(line for line in secret.splitlines() if len(line) >= 16)):
        assert spelling not in redacted(f"it answered <{spelling}>", [secret])


@given(secrets, st.binary(max_size=9), st.binary(max_size=9))
def test_in_base64_nothing_but_its_first_and_last_bits_get_through(secret: str, before: bytes, after: bytes) -> None:
    data = secret.encode()
    encoded = base64.b64encode(before + data + after).decode()
    left = redacted(encoded, [secret])
    assert "***" in left
    assert len(left.replace("***", "")) <= len(encoded) - (len(data) * 8 // 6 - 1)


@pytest.mark.parametrize("secret", ["", "a", "abc"])
def test_what_is_too_short_to_be_told_from_words_stays(secret: str) -> None:
    assert redacted("a b c abc", [secret]) == "a b c abc"


@pytest.mark.parametrize("cut_at", [1, 10, 18])
def test_a_text_without_end_is_cut_and_shows_no_half_of_a_secret(cut_at: int) -> None:
    """An answer of 60 MB and the 1,900 spellings of a long address took ten minutes."""
    secret, half = "horse/battery/staple", LONGEST // 2
    begin, end = f"no {secret} ".ljust(half - cut_at, "a"), f" {secret} no".rjust(half - cut_at, "z")
    shown = redacted(f"{begin}{secret}{'-' * 10_000_000}{secret}{end}", [secret, "another"])
    assert len(shown) <= LONGEST
    assert (shown[:7], shown[-7:]) == ("no *** ", " *** no")
    assert not [each for each in ("hor", "horse", "ple", "staple") if each in shown]
