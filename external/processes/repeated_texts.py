"""Removes a server's text from a message of rclone or restic, and leaves the status of its answer, and its code.

A user who may choose which server a worker asks must not be able to read its answer: an internal page, an error with
names in it, the banner of a service. Each program, and each of its libraries, quotes an answer in its specific form.
"""

import re
from http import HTTPStatus

STATUS = r"(?P<status>[1-5]\d\d)"
CODE = r"(?P<code>[A-Z][A-Za-z]{2,60})"
BEHIND = tuple(
    re.compile(form, re.DOTALL)
    for form in (
        # rclone for HTTP in general; its types http, swift and pixeldrain
        rf"(?i:http error):? {STATUS}\b.*",
        # S3
        rf"StatusCode: {STATUS}, (?:.*?api error {CODE}: (?:.*; expecting '(?P<region>[a-z]+(?:-[a-z]+)+-\d)')?)?.*",
        # Azure
        rf"-*\s*RESPONSE {STATUS}: (?:.*?ERROR CODE: {CODE}\s)?.*",
        # OAuth, with an answer that is not of its protocol
        rf"oauth2: cannot fetch token: {STATUS}\b.*",
        # Google
        rf"googleapi: (?:Error|got HTTP response code) {STATUS}\b.*",
        # Koofr
        rf"Invalid response status! Got {STATUS},.*",
        # restic
        rf"unexpected HTTP response \({STATUS}\).*",
        rf"server response unexpected: {STATUS}\b.*",
    )
)
"""A program's text, and then that of a server. `code`: one for the answer that the protocol knows."""
BEFORE = re.compile(r"(?:.*: )?([3-5]\d\d) .*|.*\(([3-5]\d\d) \S+\)", re.DOTALL)
"""WebDAV, Sia and FTP, and B2: the text of a server, its status, and more of its text."""
OWN = re.compile(
    r"((read metadata failed|couldn't list files|error listing|failed to (open source object|authorize account|"
    r"authenticate|make directory|copy)): )*"
)
"""Texts of rclone that may come before that."""
OF_THIS_HOST = re.compile(
    r"(permission denied|no such file or directory|(not|is) a directory|file exists|directory not empty|"
    r"no space left on device|disk quota exceeded|read-only file system|input/output error|operation not permitted|"
    r"file name too long|stale (NFS )?file handle|connection refused|connection reset by peer|timeout|EOF)$"
)
"""The end of an error that no server sent, whatever numbers are in its paths."""
QUOTED = re.compile(r'(malformed (?:HTTP|MIME) [^"]{0,300}|can\'t parse content type) "(?:[^"\\]|\\.)*"')
"""Quotes of a server that does not speak HTTP, or speaks another version."""
TOKEN = re.compile(r'oauth2: "(?P<error>(?:[^"\\]|\\.)*)".*', re.DOTALL)
TOKEN_ERRORS = frozenset({
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope", "access_denied",
})  # fmt: skip
"""RFC 6749, 5.2."""
OF_FTP = frozenset({421, 425, 426, 430, 434, 450, 451, 452, 530, 532, 550, 551, 552, 553})
"""RFC 959, 4.2; some mean something else in HTTP."""


def without_answers(text: str) -> str:
    """A message without a server's text."""
    text = QUOTED.sub(r"\1", text)
    text = TOKEN.sub(lambda found: f"oauth2: {found['error'] if found['error'] in TOKEN_ERRORS else 'refused'}", text)
    for form in BEHIND:
        if found := form.search(text):
            more = [each for name in ("code", "region") if (each := found.groupdict().get(name))]
            return text[: found.start()] + _answered(int(found["status"]), ", expecting ".join(more))
    if (found := BEFORE.fullmatch(text)) and not OF_THIS_HOST.search(text):
        status, own = int(found[1] or found[2]), OWN.match(text)
        if status in OF_FTP or status in list(HTTPStatus):
            return (own[0] if own else "") + _answered(status, "")
    return text


def _answered(status: int, code: str) -> str:
    known = status not in OF_FTP and status in list(HTTPStatus)
    meaning = f" {HTTPStatus(status).phrase}" if known else ""
    return f"the server answered {status}{meaning}{f' ({code})' if code else ''}" + (" of FTP" if not known else "")
