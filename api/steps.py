"""What each request about a resource goes through, in order.

create   key (api/idempotency.py) → fill → check → save → saved → 201 with Location and ETag
change   lock the row → If-Match → refuse_change → fill → check → save → saved → 200 with ETag
delete   lock the row → If-Match → refuse_change → uses_of → remove → 204

Each is one transaction. Of two changes with one ETag the second finds the row as the first left it: 412. A name that
somebody else takes between check and save is told as it is when the check finds it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError, RestrictedError
from django.http import HttpRequest, HttpResponse, JsonResponse
from pydantic import BaseModel

from api import history
from api.choosing import patiently
from api.cursors import Place, page_of
from api.errors import ApiError, not_valid
from api.etags import check_if_match, etag_of
from api.idempotency import once
from api.wording import model_errors

if TYPE_CHECKING:
    from api.resources import Resource

PAGING = ("limit", "cursor", "ordering")

DO_WHAT_IT_SAYS = "do what `detail` says, then delete it again"
"""The hint of a 409 whose detail tells for each use what to do about it."""


def contents(resource: "Resource[Any]", rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows as JSON, as the resource's answer says."""
    told = [resource.answer.model_validate(facts) for facts in resource.facts(rows)]
    return [each.model_dump(mode="json", by_alias=True) for each in told]


def respond(resource: "Resource[Any]", row: Any, status: int = 200) -> HttpResponse:
    """The answer about one row, with its ETag."""
    [content] = contents(resource, [row])
    etag = etag_of(content, resource.moving, resource.untold(row))
    return JsonResponse(content, status=status, headers={"ETag": etag})


def read(resource: "Resource[Any]", row_id: int) -> HttpResponse:
    """One row, with its ETag; with its details where it has some. Raises: ApiError (404, 503)."""
    with patiently():
        row = existing(resource, row_id)
        response = respond(resource, row)
        if resource.detail is None:
            return response
        [facts] = resource.facts([row])
        told = resource.detail.model_validate(facts | resource.detailed(row))
    return JsonResponse(told.model_dump(mode="json", by_alias=True), headers={"ETag": response["ETag"]})


def list_rows(resource: "Resource[Any]", query: BaseModel) -> dict[str, Any]:
    """One page. Raises: ApiError (422, 503)."""
    asked = {name: value for name, value in query if name not in PAGING and value is not None}
    given: Any = query
    with patiently(resource.ask_for_less):
        rows = resource.filtered(resource.rows(), asked)
        place = Place.of(rows.model, given.ordering, resource.tie, resource.with_value)
        shown, following = page_of(rows, place, given.limit, given.cursor, resource.path)
        return {"items": contents(resource, shown), "next": following}


def existing(resource: "Resource[Any]", row_id: int) -> Any:
    """Raises: ApiError (404)."""
    row = resource.rows().filter(pk=row_id).first()
    if row is None:
        raise _missing(resource)
    return row


def create(resource: "Resource[Any]", request: HttpRequest, body: BaseModel) -> HttpResponse:
    """Raises: ApiError (409, 422)."""

    def make() -> HttpResponse:
        values = dict(body)
        row = resource.new(values)
        resource.fill(row, values)
        _write(resource, request, row, None)
        history.created(request, row)
        response = respond(resource, existing(resource, row.pk), 201)
        response["Location"] = f"{request.path.rstrip('/')}/{row.pk}"
        return response

    return once(request, make)


@transaction.atomic
def change(resource: "Resource[Any]", request: HttpRequest, row_id: int, body: BaseModel) -> HttpResponse:
    """Raises: ApiError (403, 404, 409, 412, 422)."""
    row = _locked(resource, request, row_id)
    changed = resource.fill(row, {name: getattr(body, name) for name in body.model_fields_set})
    if changed:
        _write(resource, request, row, changed)
        history.changed(request, row, changed)
    return respond(resource, existing(resource, row_id))


@transaction.atomic
def delete(resource: "Resource[Any]", request: HttpRequest, row_id: int) -> HttpResponse:
    """Raises: ApiError (403, 404, 409, 412)."""
    row = _locked(resource, request, row_id)
    if uses := resource.uses_of(row):
        raise _in_use(resource, " ".join(uses), DO_WHAT_IT_SAYS)
    history.deleted(request, row)
    try:
        with transaction.atomic():
            resource.remove(request, row)
    except ProtectedError as error:
        raise _in_use(resource, _describe(error.protected_objects)) from error
    except RestrictedError as error:
        raise _in_use(resource, _describe(error.restricted_objects)) from error
    except IntegrityError as error:
        raise _in_use(
            resource, "it came into use meanwhile", "delete it again: it is told then what uses it"
        ) from error
    return HttpResponse(status=204)


def _locked(resource: "Resource[Any]", request: HttpRequest, row_id: int) -> Any:
    """The row, locked until the transaction ends, and as `If-Match` says. Raises: ApiError (403, 404, 409, 412)."""
    if not resource.lock(row_id):
        raise _missing(resource)
    row = existing(resource, row_id)  # read behind the lock
    check_if_match(request, etag_of(contents(resource, [row])[0], resource.moving, resource.untold(row)))
    resource.refuse_change(request, row)
    return row


def _write(resource: "Resource[Any]", request: HttpRequest, row: Any, changed: set[str] | None) -> None:
    """Raises: ApiError (409, 422)."""
    try:
        resource.check(row)
        with transaction.atomic():
            resource.save(request, row, changed)
            resource.saved(request, row, changed)
            connection.check_constraints()  # what it refers to stays until the end: its title and its answer name that
    except ValidationError as error:
        raise not_valid(model_errors(error)) from error
    except IntegrityError as error:
        raise _clash(resource, row) from error


def _clash(resource: "Resource[Any]", row: Any) -> ApiError:
    """Somebody else saved what clashes after it was checked here: 422 if a check finds it now, else 409."""
    try:
        resource.check(row)
    except ValidationError as error:
        return not_valid(model_errors(error))
    return ApiError(409, f"the {resource.name} clashes with what others saved meanwhile", "read it again")


def _missing(resource: "Resource[Any]") -> ApiError:
    return ApiError(404, f"there is no such {resource.name}", f"GET /api{resource.path} lists those there are")


def _in_use(resource: "Resource[Any]", told: str, hint: str = "take it away there first") -> ApiError:
    return ApiError(409, f"the {resource.name} is in use: {told}", hint)


def _describe(rows: Any) -> str:
    names = sorted({f"{each._meta.verbose_name} {each}" for each in rows})
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
