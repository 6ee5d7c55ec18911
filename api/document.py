"""The OpenAPI document, completed with facts about operations that follow from their kind.

The possible problems of an operation follow from its kind: every one may be refused for its length, type or unknown
parameters, or meet a database that is down; one with authentication may answer 401, 403 and 429; one with an id in its
path, 404. An operation declares the rest itself, in `openapi_extra={"x-has": […]}` (see `HAS`).
"""

from typing import Any

from django.conf import settings
from ninja.openapi.schema import REF_TEMPLATE, OpenAPISchema
from ninja.operation import Operation

from api.auth import Staff
from api.errors import CONTENT_TYPE, USUAL, Problem
from jobs.conf import PROGRAM
from operations.backlog.arguments import LARGEST_ID

ALWAYS = (400, 411, 413, 415, 422, 503)
OF_AUTH = (401, 403, 429)

HAS: dict[str, tuple[int, ...]] = {
    "etag": (),
    "location": (),
    "if-match": (412,),
    "idempotency": (409,),
    "conflict": (409,),
}
"""The names that `x-has` may have, and the problems that each adds. `conflict`: 409 for anything that prevents the
operation.
"""


def _header(text: str, kind: str = "string") -> dict[str, Any]:
    return {"description": text, "schema": {"type": kind}}


def _request_header(name: str, text: str, pattern: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": pattern}
    return {"in": "header", "name": name, "required": False, "description": text, "schema": schema}


RETRY_AFTER = {"Retry-After": _header("Seconds", "integer")}
PROBLEM_HEADERS = {401: {"WWW-Authenticate": _header("`Bearer`")}, 429: RETRY_AFTER, 503: RETRY_AFTER}
ANSWER_HEADERS = {
    "etag": {
        "ETag": _header(
            "The state of a row that users edit. Send it as If-Match to change only the state that you have seen"
        )
    },
    "location": {"Location": _header("The address of the new row")},
    "idempotency": {"Idempotent-Replayed": _header("`true`: the stored answer to an earlier request")},
}
REQUEST_HEADERS = {
    "if-match": _request_header(
        "If-Match",
        "The ETag that was read: 412 if it has been changed since. Left out: whatever it is now",
        r'^("[0-9a-f]{32}"|\*)$',
    ),
    "idempotency": _request_header(
        "Idempotency-Key",
        "Sent again with the same key within a day, the same request gets the same answer",
        "^[!-~]{1,255}$",
    ),
}

SECURITY: dict[str, dict[str, Any]] = {
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": settings.SESSION_COOKIE_NAME,
        "description": (
            "The session of a member of staff who logged in at /admin/. Requests that change something need "
            "X-CSRFToken, too."
        ),
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": f"`bst_…`, of a user, with scopes: `{PROGRAM} secrets issue`, or Admin › API tokens.",
    },
    "agent": {
        "type": "http",
        "scheme": "bearer",
        "description": f"`bsa_…`, of the agent of a source: `{PROGRAM} sources enrol`.",
    },
}


class Document(OpenAPISchema):
    """The document of an API whose problems are those of `api/errors.py`."""

    def __init__(self, api: Any, path_prefix: str) -> None:
        super().__init__(api, path_prefix)
        components = self["components"]
        shape = Problem.model_json_schema(ref_template=REF_TEMPLATE, mode="serialization")
        components["schemas"] |= shape.pop("$defs") | {Problem.__name__: shape}
        components["responses"] = {_name(status): _problem(status) for status in USUAL}
        components["securitySchemes"] = SECURITY

    def operation_details(self, operation: Operation) -> dict[str, Any]:
        """The operation as ninja describes it, with ids in range, headers, every problem, and the
        permissions needed.
        """
        details: dict[str, Any] = super().operation_details(operation)
        has = details.pop("x-has", [])
        parameters = details["parameters"]
        for parameter in parameters:
            if parameter["in"] == "path" and parameter["schema"].get("type") == "integer":
                parameter["schema"] |= {"minimum": 1, "maximum": LARGEST_ID}
            if parameter["in"] == "query":
                parameter["schema"] = _without_null(parameter["schema"])
        parameters += [header for name, header in REQUEST_HEADERS.items() if name in has]
        has_path = any(parameter["in"] == "path" for parameter in parameters)
        details["responses"] = _answers(operation, details["responses"], has, has_path)
        if operation.auth_callbacks:
            details["security"] = [each for auth in operation.auth_callbacks for each in _security(auth)]
        return details


def _answers(operation: Operation, known: dict[Any, Any], has: list[str], has_path: bool) -> dict[str, Any]:
    found = {int(status): answer for status, answer in known.items()}
    good = {status: answer for status, answer in found.items() if status < 400}
    for status, answer in good.items():
        if status == 204:
            answer.pop("content", None)
        if headers := {name: text for each in has for name, text in ANSWER_HEADERS.get(each, {}).items()}:
            answer["headers"] = headers
    statuses = found.keys() - good.keys() | {*ALWAYS, *(OF_AUTH if operation.auth_callbacks else ())}
    statuses |= {*((404,) if has_path else ()), *(status for each in has for status in HAS[each])}
    problems = {status: {"$ref": f"#/components/responses/{_name(status)}"} for status in statuses}
    return {str(status): answer for status, answer in sorted({**good, **problems}.items())}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter may be left out; no text in an address is null."""
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) != 1:
        return schema
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    return {**kept, **choices[0]}


def _security(auth: Any) -> list[dict[str, list[str]]]:
    if not isinstance(auth, Staff):
        return [{"agent": []}]
    return [{"session": []}, {"token": [str(auth.scope)] if auth.scope else []}]


def _problem(status: int) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": USUAL[status][0].capitalize(),
        "content": {CONTENT_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }
    return answer | ({"headers": PROBLEM_HEADERS[status]} if status in PROBLEM_HEADERS else {})


def _name(status: int) -> str:
    return f"Problem{status}"
