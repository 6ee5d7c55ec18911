"""Repositories, with what their circuit breakers say. The key that is made for an encrypted one is answered once."""

import json
from typing import Any, Literal

from django.db.models import Case, CharField, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import Field, Schema

from api import steps
from api.auth import writing
from api.fields import Name, partial
from api.resources import Resource
from sources import models
from sources.declarations import Repository
from sources.repository_breaker import OPEN_BREAKER_OF_REPOSITORY
from sources.repository_edits import Repositories


class RepositoryAnswer(Repository):
    """Where backups go. `breaker`: `open` while all that goes there fails, and waits."""

    id: int
    breaker: Literal["closed", "open"]


class NewRepositoryAnswer(RepositoryAnswer):
    """`new_key`: of an encrypted one, shown this once: without it no backup there can be read. Keep it elsewhere."""

    new_key: str | None
    warnings: list[str] = Field(description="What to know of it, and what to do; not when it is sent again")


class ChangedRepositoryAnswer(RepositoryAnswer):
    """A repository after a change."""

    warnings: list[str] = Field(description="What to know of the change, and what to do")


class RepositoryFilters(Schema):
    """Which repositories."""

    name: Name | None = None


MADE_HERE = "sources.new_key_of_repository"
"""Where a request carries the key that it made, until it is answered."""
WARNED = "sources.warnings_of_repository"
"""And what its person is to know."""


class RepositoriesOfTheApi(Resource[models.Repository]):
    service, tag = Repositories, "repositories"
    answer, filters = RepositoryAnswer, RepositoryFilters
    orderings = ("id", "name")
    moving = ("breaker",)
    removes = True
    creates = changes = False  # see create and change

    def rows(self) -> QuerySet[Any]:
        opened = models.Repository.objects.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY)
        state = Case(
            When(open_breaker=None, then=Value("closed")), default=Value("open"), output_field=CharField(max_length=10)
        )
        return opened.annotate(breaker=state)

    def saved(
        self, request: HttpRequest, row: models.Repository, changed: set[str] | None, warnings: list[str]
    ) -> None:
        request.META[MADE_HERE], request.META[WARNED] = row.new_key, warnings


resource = RepositoriesOfTheApi()
router = resource.router()


@router.post(
    "/repositories", auth=writing("add", "sources.repository"), response={201: NewRepositoryAnswer},
    operation_id="create_repository", summary="Create a repository",
    openapi_extra={"x-has": ["etag", "location", "idempotency", "conflict"]},
)  # fmt: skip
def create(request: HttpRequest, body: Repository) -> HttpResponse:
    """It is written, read, changed and deleted there first. Sent again with the same idempotency key, the answer has no
    key of the repository."""
    answer = steps.create(resource, request, body)  # stores it, without the key
    return _with(answer, request, new_key=request.META.pop(MADE_HERE, None))


@router.patch(
    resource.one_path, auth=writing("change", "sources.repository"), response=ChangedRepositoryAnswer,
    operation_id="update_repository", summary="Update a repository", description="What is left out stays.",
    openapi_extra={"x-has": ["etag", "if-match", "conflict"]},
)  # fmt: skip
def change(request: HttpRequest, repository_id: int, body: partial(Repository)) -> HttpResponse:  # type: ignore[valid-type]
    return _with(steps.change(resource, request, repository_id, body), request)


def _with(answer: HttpResponse, request: HttpRequest, **more: Any) -> HttpResponse:
    """An answer with what is not stored."""
    content = json.loads(answer.content) | more | {"warnings": request.META.pop(WARNED, [])}
    headers = {name: value for name, value in answer.items() if name not in ("Content-Type", "Content-Length")}
    return JsonResponse(content, status=answer.status_code, headers=headers)
