"""Edits over the API: calls of a service (declarations/service.py), and the answers to refusals."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.http import parse_etags
from ninja import Query

from api import history
from api.errors import ApiError, not_valid
from backups.upkeep import removals
from declarations.problems import lines_of
from declarations.service import Edit, InUse, Service
from external.formatting import some_of

DO_WHAT_IT_SAYS = "do what `detail` says"
"""The hint of a 409 whose detail contains the advice."""

OF_BACKUPS = "Whether the files of its backups are kept or deleted. If left out, a row with backups is not deleted"
BACKUPS: Any = {"backups": Annotated[Literal["delete", "keep"] | None, Query(None, description=OF_BACKUPS)]}  # type: ignore[type-arg]


@dataclass(frozen=True, kw_only=True)
class RemovalAnswer(removals.Contents):
    """The contents of a removal: `backups`, the bytes that were written for them, and their locations; `copies`: the
    number of sources with copies in the `second` repositories. `record`: the backlog record that deletes it.
    """

    record: int


def check_if_match(request: HttpRequest, etag: str) -> None:
    """Compare `If-Match`, if it was sent, with the row's present ETag: as strong ETags.

    Raises: ApiError: 412 if it is stale, 400 if it is neither ETags nor `*`.
    """
    sent = request.headers.get("If-Match", "*")
    if len(found := parse_etags(sent)) <= sent.count(","):
        raise ApiError(400, "the header If-Match holds no ETag", 'send it as it was given, as `If-Match: "0a1b…"`')
    if found != ["*"] and etag not in found:
        raise ApiError(412)


def write(service: Service[Any], row: Any, sent: dict[str, Any]) -> Edit:
    """Fill a row with the sent values, and save it. Raises: ApiError (409, 422)."""
    row_id = row.pk
    try:
        changed = service.fill(row, sent)
        if not changed and changed is not None:
            return Edit(row, changed, [])
        with transaction.atomic():
            warnings = service.save(row, changed)
            connection.check_constraints()  # its title and its answer name the rows that it refers to
        return Edit(row, changed, warnings)
    except ValidationError as error:
        raise not_valid(list(lines_of(error))) from error
    except IntegrityError as error:
        raise _clash(type(service)(service.account), row_id, sent) from error


def _clash(service: Service[Any], row_id: int | None, sent: dict[str, Any]) -> ApiError:
    """The error if another request saved a clashing row after the check: 422 if a check finds it now, otherwise 409."""
    try:
        service.fill(service.rows().get(pk=row_id) if row_id else service.new(), sent)
    except ValidationError as error:
        return not_valid(list(lines_of(error)))
    return ApiError(409, f"the {service.title} clashes with a change that was saved in the meantime", "read it again")


def delete(request: HttpRequest, service: Service[Any], row: Any) -> HttpResponse:
    """Delete a row that nothing uses. Raises: ApiError (409)."""
    try:
        service.remove([row])
    except InUse as error:
        raise _in_use(service, f"{str(error).rstrip('.')}.", DO_WHAT_IT_SAYS) from error
    except ProtectedError as error:
        users = sorted({f"{each._meta.verbose_name} {each}" for each in error.protected_objects})
        raise _in_use(service, some_of(users), "take it away there first") from error
    except IntegrityError as error:
        raise _in_use(service, "it came into use in the meantime", "delete it again, to read what uses it") from error
    return HttpResponse(status=204)


def remove(request: HttpRequest, service: Any, row: Any, backups: str) -> HttpResponse:
    """Delete a row with backups in the background: `delete` these, or `keep` them. Raises: ApiError (409)."""
    if users := service.users(row):
        raise _in_use(service, f"{'. '.join(users)}.", DO_WHAT_IT_SAYS)
    goes = removals.contents([row])
    history.noted(request, row, f"Deletion began, files: {backups}")
    record = removals.start(row, with_backups=backups == "delete", by=service.by)
    return JsonResponse({"record": record.pk, **asdict(goes)}, status=202)


def _in_use(service: Service[Any], uses: str, hint: str) -> ApiError:
    return ApiError(409, f"the {service.title} is in use: {uses}", hint)
