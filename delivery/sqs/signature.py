"""Proof of our identity for a queue: credentials as boto3 finds them, in a signature by botocore.

boto3 is an optional extra, imported when the first message is signed. Its own chain provides the credentials, which are
stored nowhere else.
"""

import os
from threading import Lock
from typing import Any

from delivery import extras
from delivery.http.failures import quoted
from delivery.sqs.queues import Queue

SECRET = ("Authorization", "X-Amz-Security-Token")
"""Headers of a message that no error may quote, should a server repeat them."""

NO_REGION = "the region of the queue is not known: set it at the endpoint, or AWS_DEFAULT_REGION where the worker runs"
FIND_CREDENTIALS = (
    "the worker finds no credentials: give it some where boto3 looks for them (environment, shared credentials file, "
    "role of the machine)"
)
SECONDS = 30.0
"""Seconds for which credentials are looked for, or waited for."""
NO_END = f"{FIND_CREDENTIALS} (it has looked for {SECONDS:g} s)"


class UnreadySignature(Exception):
    """Nothing can be signed. Its text contains advice."""


_lock = Lock()
_session: Any = None
"""boto3's, once it has found credentials."""


def forget() -> None:
    """Look for credentials again: those that were found are refused."""
    global _session
    _session = None


def signed(queue: Queue, body: bytes) -> dict[str, str]:
    """The headers of a SendMessage with that body.

    It asks a file, a program or the machine's role for credentials, one thread at a time, which takes as long as it
    does; the others wait for SECONDS. Raises: UnreadySignature.
    """
    if lacking := extras.missing("boto3", "SQS"):
        raise UnreadySignature(f"{lacking}; then restart the worker")
    from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
    from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]

    if not _lock.acquire(timeout=SECONDS):
        raise UnreadySignature(NO_END)
    try:
        region, credentials = _found()
    except Exception as error:  # of the files, programs and servers that boto3 asks
        raise UnreadySignature(f"{FIND_CREDENTIALS} ({quoted(str(error))})") from None
    finally:
        _lock.release()
    if not (region := queue.region or region):
        raise UnreadySignature(NO_REGION)
    if credentials is None:
        raise UnreadySignature(FIND_CREDENTIALS)
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.SendMessage"}
    request = AWSRequest("POST", f"{queue.server}/", headers, body)
    SigV4Auth(credentials, "sqs", region).add_auth(request)
    return dict(request.headers)


def _found() -> tuple[str, Any]:
    """The region set in the environment, and the present credentials; None if there are none."""
    global _session
    from boto3.session import Session  # type: ignore[import-untyped]

    session = _session or Session()
    region, credentials = session.region_name or os.environ.get("AWS_REGION", ""), session.get_credentials()
    if credentials is None:
        return region, None
    _session = session
    return region, credentials.get_frozen_credentials()
