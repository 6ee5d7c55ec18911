"""Repositories, with what their circuit breakers say."""

from typing import Annotated, Any, Literal

from django.db.models import Case, CharField, QuerySet, Value, When
from django.http import HttpRequest
from ninja import Field, Schema
from pydantic import AfterValidator, StringConstraints

from api.auth import user_of
from api.fields import Body, Name, Title, storable_text
from api.resources import Resource
from sources import edits
from sources.backups import reach
from sources.models import Repository
from sources.repository_breaker import OPEN_BREAKER_OF_REPOSITORY

Location = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(storable_text)]


class RepositoryBody(Body):
    """Where backups go. A directory that is missing is made."""

    name: Title
    location: Location = Field(description="Absolute path of a directory, as /srv/backups")


class RepositoryAnswer(Schema):
    """Where backups go. `breaker`: `open` while what goes there fails for everybody, and waits."""

    id: int
    name: str
    location: str
    breaker: Literal["closed", "open"]


class RepositoryFilters(Schema):
    """Which repositories."""

    name: Name | None = None


class Repositories(Resource[Repository]):
    model, name, plural, tag = Repository, "repository", "repositories", "repositories"
    body, answer, filters = RepositoryBody, RepositoryAnswer, RepositoryFilters
    orderings = ("id", "name")
    moving = ("breaker",)

    def rows(self) -> QuerySet[Any]:
        opened = Repository.objects.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY)
        said = Case(
            When(open_breaker=None, then=Value("closed")), default=Value("open"), output_field=CharField(max_length=10)
        )
        return opened.annotate(breaker=said)

    def save(self, request: HttpRequest, row: Repository, changed: set[str] | None) -> None:
        reach.check_repository(user_of(request), row)
        edits.save_repository(row, changed, by=user_of(request).get_username())

    def remove(self, request: HttpRequest, row: Repository) -> None:
        edits.delete_repositories([row])


repositories = Repositories()
router = repositories.router()
