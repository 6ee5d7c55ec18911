"""Repositories, with what their circuit breakers say."""

from typing import Any, Literal

from django.db.models import Case, CharField, QuerySet, Value, When
from ninja import Schema

from api.fields import Name
from api.resources import Resource
from sources import models
from sources.declarations import Repository
from sources.edits import Repositories
from sources.repository_breaker import OPEN_BREAKER_OF_REPOSITORY


class RepositoryAnswer(Repository):
    """Where backups go. `breaker`: `open` while all that goes there fails, and waits."""

    id: int
    breaker: Literal["closed", "open"]


class RepositoryFilters(Schema):
    """Which repositories."""

    name: Name | None = None


class RepositoriesOfTheApi(Resource[models.Repository]):
    service, tag = Repositories, "repositories"
    answer, filters = RepositoryAnswer, RepositoryFilters
    orderings = ("id", "name")
    moving = ("breaker",)

    def rows(self) -> QuerySet[Any]:
        opened = models.Repository.objects.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY)
        state = Case(
            When(open_breaker=None, then=Value("closed")), default=Value("open"), output_field=CharField(max_length=10)
        )
        return opened.annotate(breaker=state)


router = RepositoriesOfTheApi().router()
