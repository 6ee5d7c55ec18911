"""What an endpoint may be: checks of what people type, for the admin's form, the command and the API."""

import re
from typing import Any

from django.core.exceptions import ValidationError

from delivery import addresses, signing
from delivery.models import Endpoint, EndpointKind
from delivery.sqs.queues import REGION, queue_at
from delivery.targets import NOT_TO_BE_SET

LONGEST_AUTHORIZATION = 8000
MOST_HEADERS = 50
LONGEST_HEADER = 2000

SET_BY_DELIVERY = frozenset({"content-type", "idempotency-key", signing.ID, signing.TIMESTAMP, signing.SIGNATURE})
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
GROUP = re.compile(r"[!-~]{1,128}")

OF_QUEUES = ("region", "message_group")
OF_CALLBACKS = ("headers", "follow_redirects")
"""Fields that the other kind has no use for."""


def problems_of(endpoint: Endpoint) -> dict[str, str]:
    """What is wrong with it beyond its single fields, by field. Empty: nothing."""
    errors: dict[str, str] = {}
    if endpoint.kind not in EndpointKind.values:
        return {"kind": f"no kind {endpoint.kind!r}; there are {', '.join(EndpointKind.values)}"}
    if problem := addresses.problem_with(endpoint.url, endpoint.kind):
        errors["url"] = problem
    if endpoint.kind == EndpointKind.SQS_MESSAGE:
        errors |= _problems_of_queue(endpoint, checked="url" in errors)
    elif problem := problem_of_headers(endpoint.headers):
        errors["headers"] = problem
    others = OF_CALLBACKS if endpoint.kind == EndpointKind.SQS_MESSAGE else OF_QUEUES
    kind = EndpointKind(endpoint.kind).label
    for field in others:
        if getattr(endpoint, field):
            errors[field] = f"is not for an endpoint of {kind}s; leave it empty"
    return errors


def check(endpoint: Endpoint) -> None:
    """Check its fields and what they mean together. Raises: ValidationError by field."""
    errors: dict[str, Any] = {}
    try:
        endpoint.full_clean()
    except ValidationError as error:
        errors = dict(error.error_dict)
    for field, problem in problems_of(endpoint).items():
        errors.setdefault(field, [problem])
    if errors:
        raise ValidationError(errors)


def _problems_of_queue(endpoint: Endpoint, *, checked: bool) -> dict[str, str]:
    errors: dict[str, str] = {}
    if not checked:
        try:
            queue_at(endpoint.url)
        except addresses.Refused as refused:
            errors["url"] = str(refused)
    if endpoint.region and not re.fullmatch(REGION, endpoint.region):
        errors["region"] = "is no region; one looks as eu-central-1"
    if endpoint.message_group and not GROUP.fullmatch(endpoint.message_group):
        errors["message_group"] = "has up to 128 letters, digits and signs, without spaces or accents"
    return errors


def problem_of_headers(headers: Any) -> str:
    """What is wrong with the headers of a callback; empty: nothing."""
    if not isinstance(headers, dict):
        return 'are a JSON object of texts, as {"X-Tenant": "7"}'
    if len(headers) > MOST_HEADERS:
        return f"are {len(headers)}: at most {MOST_HEADERS} are sent"
    for name, value in headers.items():
        if problem := _problem_of_header(name, value):
            return f"{name[:100]!r} {problem}"
    return ""


def _problem_of_header(name: str, value: Any) -> str:
    if not HEADER_NAME.fullmatch(name):
        return "is no name of a header: letters, digits and -"
    if name.lower() == "authorization":
        return "is a secret and would be shown here; set Authorization by itself"
    if name.lower() in NOT_TO_BE_SET or name.lower() in SET_BY_DELIVERY:
        return "is set by the delivery itself; leave it out"
    if not isinstance(value, str) or not HEADER_VALUE.fullmatch(value) or len(value) > LONGEST_HEADER:
        return f"is not a text of up to {LONGEST_HEADER} characters on one line, as a header can hold it"
    return ""


def problem_of_authorization(text: str) -> str:
    """What is wrong with the value of an Authorization header, without quoting it; empty: nothing."""
    if not HEADER_VALUE.fullmatch(text) or len(text) > LONGEST_AUTHORIZATION:
        return f"is one line of up to {LONGEST_AUTHORIZATION} characters that a header can hold, as Bearer …"
    return ""


def asks_for_authorization_again(endpoint: Endpoint, old_url: str) -> str:
    """Why its Authorization has to be entered again when its URL changes; empty: it has not.

    Else whoever may edit an endpoint could have a secret sent to himself that nobody shows him.
    """
    if not endpoint.sealed_authorization or _origin(endpoint.url) == _origin(old_url):
        return ""
    return (
        f"the Authorization that is set is for {_origin(old_url)}, and would be sent to {_origin(endpoint.url)}: "
        "enter it again, or remove it"
    )


def _origin(url: str) -> str:
    try:
        return addresses.read(url).origin
    except addresses.Refused:
        return url
