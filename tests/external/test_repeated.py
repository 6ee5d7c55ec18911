"""A server's own words stand in no message: each form was seen with rclone 1.75, or is restic's."""

import pytest

from external.processes.repeated_texts import without_answers

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
