"""The OpenAPI document, completed with what is true of operations without their having to say it.

Which problems an operation may answer with follows from what it is: everything may be refused for its length, type or
unknown parameters, or meet a database that is away; what asks who it is may answer 401, 403 and 429; what has an id in
its path, 404. An operation says the rest itself, in `openapi_extra={"x-has": […]}` (see `HAS`).
"""

from typing import Any

from django.conf import settings
from ninja.openapi.schema import REF_TEMPLATE, OpenAPISchema
from ninja.operation import Operation

from api.auth import Staff
from api.errors import CONTENT_TYPE
from api.schemas import Problem
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
"""What `x-has` may name, and which problems come of it. `conflict`: 409 for whatever is in its way."""

DESCRIPTIONS: dict[int, str] = {
    400: "The request cannot be read",
    401: "No session, or a token that is not accepted",
    403: "The scope, the permission or the CSRF token is missing",
    404: "There is no such thing",
    409: "It cannot be done as things stand",
    411: "The length of the body is missing",
    412: "If-Match is stale: it was changed meanwhile",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "Something that was sent is not valid; `errors` names it",
    429: "Too many requests",
    503: "The database cannot answer now, or the answer takes too long",
}

TEXT = {"type": "string"}
PROBLEM_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"description": "`Bearer`", "schema": TEXT}},
    429: {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}},
    503: {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}},
}
ETAG = {"ETag": {"description": "Send it as If-Match to change only what you have seen", "schema": TEXT}}
LOCATION = {"Location": {"description": "Where the new one is", "schema": TEXT}}
REPLAYED = {"Idempotent-Replayed": {"description": "`true`: the stored answer to an earlier request", "schema": TEXT}}
IF_MATCH = {
    "in": "header",
    "name": "If-Match",
    "required": False,
    "description": "The ETag that was read: 412 if it has been changed since. Left out: whatever it is now",
    "schema": {"type": "string", "pattern": r'^("[0-9a-f]{32}"|\*)$'},
}
IDEMPOTENCY_KEY = {
    "in": "header",
    "name": "Idempotency-Key",
    "required": False,
    "description": "Sent again with the same key within a day, the same request gets the same answer",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}

SECURITY: dict[str, dict[str, Any]] = {
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": settings.SESSION_COOKIE_NAME,
        "description": "Of a member of staff who logged in at /admin/. What changes something needs X-CSRFToken, too.",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "`bst_…`, of a user, with scopes: `manage.py api_tokens issue`, or Admin › API tokens.",
    },
    "agent": {
        "type": "http",
        "scheme": "bearer",
        "description": "`bsa_…`, of the agent of a source: `manage.py enrol`.",
    },
}


class Document(OpenAPISchema):
    """The document of an API whose problems are those of `api/errors.py`."""

    def __init__(self, api: Any, path_prefix: str) -> None:
        super().__init__(api, path_prefix)
        components = self["components"]
        shape = Problem.model_json_schema(ref_template=REF_TEMPLATE, mode="serialization")
        components["schemas"] |= shape.pop("$defs") | {Problem.__name__: shape}
        components["responses"] = {_name(status): _problem(status) for status in sorted(DESCRIPTIONS)}
        components["securitySchemes"] = SECURITY

    def operation_details(self, operation: Operation) -> dict[str, Any]:
        """As ninja tells it, with ids in range, headers, every problem, and who may."""
        details: dict[str, Any] = super().operation_details(operation)
        has = details.pop("x-has", [])
        parameters = details["parameters"]
        for parameter in parameters:
            if parameter["in"] == "path" and parameter["schema"].get("type") == "integer":
                parameter["schema"] |= {"minimum": 1, "maximum": LARGEST_ID}
            if parameter["in"] == "query":
                parameter["schema"] = _without_null(parameter["schema"])
        parameters += [IF_MATCH] if "if-match" in has else []
        parameters += [IDEMPOTENCY_KEY] if "idempotency" in has else []
        has_path = any(parameter["in"] == "path" for parameter in parameters)
        details["responses"] = self._answers(operation, details["responses"], has, has_path)
        if operation.auth_callbacks:
            details["security"] = [each for auth in operation.auth_callbacks for each in _security(auth)]
        return details

    def _answers(
        self, operation: Operation, told: dict[Any, Any], has: list[str], has_path: bool
    ) -> dict[str, dict[str, Any]]:
        found = {int(status): answer for status, answer in told.items()}
        good = {status: answer for status, answer in found.items() if status < 400}
        for status, answer in good.items():
            if status == 204:
                answer.pop("content", None)
            headers = {
                **(ETAG if "etag" in has else {}),
                **(LOCATION if "location" in has else {}),
                **(REPLAYED if "idempotency" in has else {}),
            }
            if headers:
                answer["headers"] = headers
        statuses = {status for status in found if status >= 400} | set(ALWAYS)
        statuses |= set(OF_AUTH) if operation.auth_callbacks else set()
        statuses |= {404} if has_path else set()
        statuses |= {status for each in has for status in HAS[each]}
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
        "description": DESCRIPTIONS[status],
        "content": {CONTENT_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }
    return answer | ({"headers": PROBLEM_HEADERS[status]} if status in PROBLEM_HEADERS else {})


def _name(status: int) -> str:
    return f"Problem{status}"
