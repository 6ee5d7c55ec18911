"""The declaration of an endpoint. Each delivery checks again whether the host may be reached, for every address of its
name (`delivery/addresses.py`).
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator

from declarations.parts import Pairs
from declarations.types import DURATION, PRINTABLE, STRICT, Choice, Title
from delivery import addresses
from delivery.addresses import LONGEST_URL
from delivery.models import EndpointKind
from delivery.sqs.queues import LONGEST_GROUP, REGION, queue_at
from delivery.targets import NOT_TO_BE_SET

LONGEST_AUTHORIZATION = 8000
MOST_HEADERS = 50
LONGEST_HEADER = 2000

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
GROUP = re.compile(rf"[!-~]{{1,{LONGEST_GROUP}}}")

OF_QUEUES = ("region", "message_group")
OF_CALLBACKS = ("headers", "follow_redirects")
"""Fields that the other kind has no use for."""

HEADERS = Pairs(
    "header", "Sent with each callback, such as X-Tenant, in addition to the usual headers. No secrets: they are shown"
)
KindOfEndpoint = Annotated[EndpointKind, Choice()]


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if problem := _problem_of_header(name, value):
            raise ValueError(f"{name[:100]!r} {problem}")
    return headers


def _problem_of_header(name: str, value: str) -> str:
    if not HEADER_NAME.fullmatch(name):
        return "is not the name of a header: letters, digits and -"
    if name.lower() == "authorization":
        return "is a secret and would be shown here; set Authorization by itself"
    if name.lower() in NOT_TO_BE_SET:
        return "is set by the delivery itself; leave it out"
    if not HEADER_VALUE.fullmatch(value) or len(value) > LONGEST_HEADER:
        return f"is not a text of up to {LONGEST_HEADER} characters on one line, such as a header can hold"
    return ""


def one_line(text: str) -> str:
    """Raises: ValueError, which does not quote it."""
    text = text.strip()
    if not HEADER_VALUE.fullmatch(text) or len(text) > LONGEST_AUTHORIZATION:
        raise ValueError(
            f"is one line of up to {LONGEST_AUTHORIZATION} characters that a header can hold, such as Bearer …"
        )
    return text


class EndpointDeclaration(BaseModel):
    """A receiver of events. Timeouts are seconds, or a duration such as `15s`."""

    model_config = STRICT

    name: Title
    kind: KindOfEndpoint = Field(EndpointKind.HTTP_CALLBACK, description="How events are delivered to it")
    url: Annotated[str, Field(min_length=1, max_length=LONGEST_URL), PRINTABLE] = Field(
        description="For example https://example.com/hooks/backup; for a queue, "
        "https://sqs.eu-central-1.amazonaws.com/1234/events"
    )
    headers: Annotated[dict[str, str], Field(max_length=MOST_HEADERS), AfterValidator(_headers), HEADERS] = Field(
        default_factory=dict,
        description='Sent with each callback, such as {"X-Tenant": "7"}. No secrets: they are shown',
    )
    connect_timeout: Annotated[float, Field(ge=0.1, le=300), DURATION] = Field(
        5, description="Time in which a connection must be established"
    )
    timeout: Annotated[float, Field(ge=0.1, le=3600), DURATION] = Field(
        30, description="Time in which the whole answer must have arrived"
    )
    follow_redirects: bool = Field(
        False, description="Follow redirects with status 307 or 308; each target is checked like the URL"
    )
    region: Annotated[str, Field(max_length=50), PRINTABLE] = Field(
        "", description="Region of a queue, such as eu-central-1. Taken from its URL or the environment if empty"
    )
    message_group: Annotated[str, Field(max_length=LONGEST_GROUP), PRINTABLE] = Field(
        "", description="Message group id, for a FIFO queue. The schedule if empty"
    )

    @field_validator("url")
    @classmethod
    def _may_be_reached(cls, url: str, info: ValidationInfo) -> str:
        kind = info.data.get("kind", "")
        problem = addresses.problem_with(url)
        if not problem and kind == EndpointKind.SQS_MESSAGE:
            try:
                queue_at(url)
            except addresses.AddressRefused as refused:
                problem = str(refused)
        if problem:
            raise ValueError(problem)
        return url

    @field_validator(*OF_QUEUES, *OF_CALLBACKS)
    @classmethod
    def _is_for_its_kind(cls, value: Any, info: ValidationInfo) -> Any:
        kind = info.data.get("kind")
        others = OF_CALLBACKS if kind == EndpointKind.SQS_MESSAGE else OF_QUEUES
        if kind and value and info.field_name in others:
            raise ValueError(f"is not for an endpoint of {EndpointKind(kind).label}s; leave it empty")
        return value

    @field_validator("region")
    @classmethod
    def _is_a_region(cls, region: str) -> str:
        if region and not re.fullmatch(REGION, region):
            raise ValueError("is not a region; one looks like eu-central-1")
        return region

    @field_validator("message_group")
    @classmethod
    def _is_a_group(cls, group: str) -> str:
        if group and not GROUP.fullmatch(group):
            raise ValueError(f"has up to {LONGEST_GROUP} letters, digits and signs, without spaces or accents")
        return group


class EndpointWithAuthorization(EndpointDeclaration):
    """An endpoint as it is typed in. `authorization` is sealed and never shown. It stays if it is left out; null
    removes it.
    """

    authorization: Annotated[str, AfterValidator(one_line)] | None = Field(
        None, description="The header that callbacks send, such as `Bearer …`"
    )
