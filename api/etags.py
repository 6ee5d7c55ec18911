"""ETags: what a resource looked like, so that an update of something else is refused (412).

An ETag is the digest of a resource's content without what machines move (live numbers, the next trigger): else each
second would make the ETags of people stale.
"""

import hashlib
import json
import re
from collections.abc import Collection
from typing import Any

from django.http import HttpRequest

from api.errors import ApiError

LENGTH = 32

ETAG = re.compile(r'(W/)?"([!#-~\x80-\uffff]*)"')

LIST = re.compile(r'\s*(W/)?"[!#-~\x80-\uffff]*"\s*(,\s*(W/)?"[!#-~\x80-\uffff]*"\s*)*')


def etag_of(content: dict[str, Any], moving: Collection[str] = (), untold: str = "") -> str:
    """The ETag of JSON content, quoted, without its `moving` members. `untold`: what is part of it and never shown."""
    kept = {name: value for name, value in content.items() if name not in moving}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":")) + untold
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:LENGTH]}"'


def check_if_match(request: HttpRequest, etag: str) -> None:
    """Compare `If-Match`, if it was sent, with what is there: as strong ETags.

    Raises: ApiError: 412 if it is stale, 400 if it is neither ETags nor `*`.
    """
    sent = request.headers.get("If-Match")
    if sent is None or sent.strip() == "*":
        return
    if not LIST.fullmatch(sent):
        raise ApiError(400, "the header If-Match holds no ETag", 'send it as it was given, as `If-Match: "0a1b…"`')
    if not any(not weak and f'"{tag}"' == etag for weak, tag in ETAG.findall(sent)):
        raise ApiError(412)
