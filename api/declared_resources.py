"""Resources that users edit: requests and answers follow the declaration, edits its service (declarations/service.py).

    class ThrottleAnswer(Throttle):                  # the answer: the declared fields, `id`, and others
        id: int
        live: LiveAnswer

    class ThrottlesOfTheApi(Declared[Throttle]):     # the rest is as in `api/resources.py`
        service, tag, answer = Throttles, "throttles", ThrottleAnswer

What each request goes through, in order, in one transaction:

    create   key (api/idempotency.py) → fill → save → 201 with Location and ETag
    change   lock the row → If-Match → obstacle → fill → save → 200 with ETag
    delete   lock the row → If-Match → obstacle → uses → delete → 204

Of two changes with one ETag the second finds the row as the first left it: 412. A name that is taken between fill and
save is refused as if it had been taken before. What a save warns of is in the answer's `warnings`, a secret that is
shown once next to it; neither is stored under an idempotency key.
"""

import json
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from pydantic import BaseModel

from api import edits
from api.auth import Staff, user_of, writing
from api.errors import ApiError
from api.fields import partial
from api.idempotency import once
from api.operations import saved_schema
from api.resources import Resource, Row, etag_of
from declarations.service import Service
from declarations.unknown import article


class DeclaredResource(Resource[Row]):
    """Rows that `service` edits."""

    service: ClassVar[type[Service[Any]]]
    body: ClassVar[type[BaseModel] | None] = None
    """The type of a request, where it is more than the declaration."""

    shown_once: ClassVar[dict[str, Any]] = {}
    """Additional attributes of a new row in the answer to its creation, as fields of a schema; not stored."""

    edited_besides: ClassVar[tuple[str, ...]] = ()
    """Further fields of the answer that are part of the ETag."""

    edited_by: ClassVar[Staff | None] = None
    """Callers who may make, change and delete rows, where permissions of their model do not decide that."""

    changes: ClassVar[bool] = True
    deletes: ClassVar[bool] = True
    removes: ClassVar[bool] = False
    """True if a row may have backups, and is then deleted in the background."""

    def __init_subclass__(cls) -> None:
        cls.model = cls.service.model

    def __init__(self) -> None:
        super().__init__()
        body, an, name = self.body or self.service.declaration, article(self.name), self.name
        saved = saved_schema(self.answer, {})
        new = saved_schema(self.answer, self.shown_once) if self.shown_once else saved
        self.operation(
            "post", self.create, f"create {name}", f"Create {an}", self.permits("add"), {201: new}, of_one=False,
            takes={"body": body}, has=["etag", "location", "idempotency", "conflict"],
        )  # fmt: skip
        if self.changes:
            self.operation(
                "patch", self.change, f"update {name}", f"Update {an}", self.permits("change"), saved,
                takes={"body": partial(body)}, has=["etag", "if-match", "conflict"],
                description="Fields that are left out stay as they are.",
            )  # fmt: skip
        if self.deletes:
            background = "202: it has backups, and is deleted in the background. " if self.removes else ""
            self.operation(
                "delete", self.delete, f"delete {name}", f"Delete {an}", self.permits("delete"),
                {**({202: edits.RemovalAnswer} if self.removes else {}), 204: None}, has=["if-match", "conflict"],
                takes=edits.BACKUPS if self.removes else {},
                description=f"{background}409 if something uses it; `detail` names it.",
            )  # fmt: skip

    def permits(self, verb: str) -> Staff:
        """Callers who may `view`, `add`, `change` and `delete` rows."""
        if verb == "view":
            return super().permits(verb)
        return self.edited_by or writing(verb, self.model._meta.label_lower)

    def rows(self) -> QuerySet[Any]:
        return self.service().rows()

    def own_facts(self, row: Row) -> dict[str, Any]:
        """The declared fields, and the answer's other fields of the row."""
        return super().own_facts(row) | self.service().values(row)

    def as_json(self, answer: type[BaseModel], facts: dict[str, Any]) -> dict[str, Any]:
        """A row that was stored past its declaration is answered as it is."""
        return answer.model_construct(**facts).model_dump(mode="json", warnings=False)

    def etag(self, row: Row, content: dict[str, Any]) -> str:
        """The ETag, from the fields that users edit and none that machines move; references count by id, since names
        may change.
        """
        edited = (*self.service.declaration.model_fields, *self.edited_besides)
        return etag_of({name: content[name] for name in edited} | self.service().ids(row))

    def create(self, request: HttpRequest, body: BaseModel) -> HttpResponse:
        """Raises: ApiError (409, 422)."""
        unstored: dict[str, Any] = {**dict.fromkeys(self.shown_once), "warnings": []}

        def make() -> HttpResponse:
            service = self.service(user_of(request))
            row = service.new()
            edit = edits.write(service, row, dict(body))
            unstored.update({name: getattr(row, name, None) for name in self.shown_once}, warnings=edit.warnings)
            response = self.respond(row.pk, 201)
            response["Location"] = f"{request.path.rstrip('/')}/{row.pk}"
            return response

        answer = once(request, make)
        answer.content = json.dumps(json.loads(answer.content) | unstored).encode()
        return answer

    @transaction.atomic
    def change(self, request: HttpRequest, row_id: int, body: BaseModel) -> HttpResponse:
        """Raises: ApiError (400, 404, 409, 412, 422)."""
        service, row = self.locked(request, row_id)
        edit = edits.write(service, row, {name: getattr(body, name) for name in body.model_fields_set})
        return self.respond(row_id, warnings=edit.warnings)

    @transaction.atomic
    def delete(self, request: HttpRequest, row_id: int, backups: str | None = None) -> HttpResponse:
        """Raises: ApiError (400, 404, 409, 412)."""
        service, row = self.locked(request, row_id)
        return edits.remove(request, service, row, backups) if backups else edits.delete(request, service, row)

    def locked(self, request: HttpRequest, row_id: int) -> tuple[Service[Any], Row]:
        """The service for the caller, and the row: locked, and compared with `If-Match`. Raises: ApiError (400, 404,
        409, 412)."""
        service = self.service(user_of(request))
        if not service.lock(row_id):
            raise self.missing()
        row = self.get(row_id)  # read behind the lock
        edits.check_if_match(request, self.etag(row, self.contents([row])[0]))
        if obstacle := service.obstacle(row):
            raise ApiError(409, obstacle, "GET /api/docs shows what there is for it")
        return service, row
