"""What each request about a resource goes through, in order.

create   key (api/idempotency.py) → fill → save → saved → 201 with Location and ETag
change   lock the row → If-Match → obstacle → fill → save → saved → 200 with ETag
delete   lock the row → If-Match → obstacle → uses → delete → 204

Each is one transaction; its service (declarations/service.py) says how a row is edited. Of two changes with one ETag
the second finds the row as the first left it: 412. A name that is taken between fill and save is refused as if it had
been taken before.
"""

from collections.abc import Sequence
from dataclasses import asdict
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
from declarations.problems import lines_of
from declarations.service import InUse, Service
from sources import removing

if TYPE_CHECKING:
    from api.resources import Resource

PAGING = ("limit", "cursor", "ordering")

DO_WHAT_IT_SAYS = "do what `detail` says, then delete it again"
"""The hint of a 409 whose detail tells for each use what to do about it."""


def contents(resource: "Resource[Any]", rows: Sequence[Any], answer: type[BaseModel] | None = None) -> list[Any]:
    """Rows as JSON, as the resource's answer says."""
    return [_as_json(resource, answer or resource.answer, facts) for facts in resource.facts(rows)]


def _as_json(resource: "Resource[Any]", answer: type[BaseModel], facts: dict[str, Any]) -> dict[str, Any]:
    """A row that was stored past its declaration is answered as it is."""
    if resource.service:
        return answer.model_construct(**facts).model_dump(mode="json", warnings=False)
    return answer.model_validate(facts).model_dump(mode="json", by_alias=True)


def respond(resource: "Resource[Any]", row: Any, status: int = 200) -> HttpResponse:
    """The answer about one row, with its ETag."""
    [content] = contents(resource, [row])
    return JsonResponse(content, status=status, headers={"ETag": _etag(resource, row, content)})


def _etag(resource: "Resource[Any]", row: Any, content: dict[str, Any]) -> str:
    """What a row refers to counts by its id: to rename that is no edit of the row."""
    ids = resource.edits().ids(row) if resource.service else {}
    return etag_of(content | ids, resource.moving, resource.untold(row))


def read(resource: "Resource[Any]", row_id: int) -> HttpResponse:
    """One row, with its ETag; with its details where it has some. Raises: ApiError (404, 503)."""
    with patiently():
        row = existing(resource, row_id)
        response = respond(resource, row)
        if resource.detail is None:
            return response
        [facts] = resource.facts([row])
        content = _as_json(resource, resource.detail, facts | resource.detailed(row))
    return JsonResponse(content, headers={"ETag": response["ETag"]})


def list_rows(resource: "Resource[Any]", query: BaseModel) -> HttpResponse:
    """One page. Raises: ApiError (422, 503)."""
    asked = {name: value for name, value in query if name not in PAGING and value is not None}
    given: Any = query
    with patiently(resource.ask_for_less):
        rows = resource.filtered(resource.rows(), asked)
        place = Place.of(rows.model, given.ordering, resource.with_value)
        shown, following = page_of(rows, place, given.limit, given.cursor, resource.path)
        return JsonResponse({"items": contents(resource, shown), "next": following})


def existing(resource: "Resource[Any]", row_id: int) -> Any:
    """Raises: ApiError (404)."""
    row = resource.rows().filter(pk=row_id).first()
    if row is None:
        raise _missing(resource)
    return row


def create(resource: "Resource[Any]", request: HttpRequest, body: BaseModel) -> HttpResponse:
    """Raises: ApiError (409, 422)."""

    def make() -> HttpResponse:
        service = resource.edits(request)
        row = service.new()
        _write(resource, request, service, row, dict(body))
        history.created(request, row)
        response = respond(resource, existing(resource, row.pk), 201)
        response["Location"] = f"{request.path.rstrip('/')}/{row.pk}"
        return response

    return once(request, make)


@transaction.atomic
def change(resource: "Resource[Any]", request: HttpRequest, row_id: int, body: BaseModel) -> HttpResponse:
    """Raises: ApiError (403, 404, 409, 412, 422)."""
    service = resource.edits(request)
    row = _locked(resource, request, service, row_id)
    sent = {name: getattr(body, name) for name in body.model_fields_set}
    if changed := _write(resource, request, service, row, sent):
        history.changed(request, row, changed)
    return respond(resource, existing(resource, row_id))


@transaction.atomic
def delete(resource: "Resource[Any]", request: HttpRequest, row_id: int, backups: str | None = None) -> HttpResponse:
    """`backups`: of what `removes` in the background, what becomes of them: *delete* or *keep*.

    Raises: ApiError (403, 404, 409, 412).
    """
    service = resource.edits(request)
    row = _locked(resource, request, service, row_id)
    if backups and resource.removes:
        return _remove(resource, request, row, service, backups)
    if uses := service.uses(row):
        raise _in_use(resource, f"{'. '.join(uses)}.", DO_WHAT_IT_SAYS)
    history.deleted(request, row)
    try:
        with transaction.atomic():
            service.delete(row)
    except InUse as error:
        raise _in_use(resource, str(error), DO_WHAT_IT_SAYS) from error
    except ProtectedError as error:
        raise _in_use(resource, _describe(error.protected_objects)) from error
    except RestrictedError as error:
        raise _in_use(resource, _describe(error.restricted_objects)) from error
    except IntegrityError as error:
        raise _in_use(resource, "it came into use meanwhile", "delete it again, to read what uses it") from error
    return HttpResponse(status=204)


def _remove(resource: "Resource[Any]", request: HttpRequest, row: Any, service: Any, backups: str) -> HttpResponse:
    """Raises: ApiError (409)."""
    if users := service.users(row):
        raise _in_use(resource, f"{'. '.join(users)}.", DO_WHAT_IT_SAYS)
    goes = removing.contents([row])
    history.deleted(request, row)
    record = removing.start(row, with_backups=backups == "delete", by=service.by)
    return JsonResponse({"record": record.pk, **asdict(goes)}, status=202)


def _locked(resource: "Resource[Any]", request: HttpRequest, service: Service[Any], row_id: int) -> Any:
    """The row, locked until the transaction ends, and as `If-Match` says. Raises: ApiError (403, 404, 409, 412)."""
    if not service.lock(row_id):
        raise _missing(resource)
    row = existing(resource, row_id)  # read behind the lock
    check_if_match(request, _etag(resource, row, contents(resource, [row])[0]))
    if obstacle := service.obstacle(row):
        raise ApiError(409, obstacle, "GET /api/docs shows what there is for it")
    return row


def _write(
    resource: "Resource[Any]", request: HttpRequest, service: Service[Any], row: Any, sent: dict[str, Any]
) -> set[str] | None:
    """Returns which fields differ; None of a new row. Raises: ApiError (409, 422)."""
    row_id = row.pk
    try:
        changed = service.fill(row, sent)
        if changed or changed is None:
            with transaction.atomic():
                warnings = service.save(row, changed)
                resource.saved(request, row, changed, warnings)
                connection.check_constraints()  # its title and its answer name what it refers to
    except ValidationError as error:
        raise not_valid(list(lines_of(error))) from error
    except IntegrityError as error:
        raise _clash(resource, request, row_id, sent) from error
    return changed


def _clash(resource: "Resource[Any]", request: HttpRequest, row_id: int | None, sent: dict[str, Any]) -> ApiError:
    """Another request saved what clashes after this one was checked: 422 if a check finds it now, else 409."""
    service = resource.edits(request)
    try:
        service.fill(existing(resource, row_id) if row_id else service.new(), sent)
    except ValidationError as error:
        return not_valid(list(lines_of(error)))
    return ApiError(409, f"the {resource.name} clashes with what others saved meanwhile", "read it again")


def _missing(resource: "Resource[Any]") -> ApiError:
    return ApiError(404, f"there is no such {resource.name}", f"GET /api{resource.path} lists those there are")


def _in_use(resource: "Resource[Any]", uses: str, hint: str = "take it away there first") -> ApiError:
    return ApiError(409, f"the {resource.name} is in use: {uses}", hint)


def _describe(rows: Any) -> str:
    names = sorted({f"{each._meta.verbose_name} {each}" for each in rows})
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
