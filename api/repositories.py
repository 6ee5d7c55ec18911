"""Repositories, with what their circuit breakers say. The key that is made for an encrypted one is answered once."""

from typing import Any, Literal

from django.db.models import Case, CharField, QuerySet, Value, When
from ninja import Field

from api.declared import Declared
from api.fields import Name
from fleet.repository_edits import Repositories
from sources import models
from sources.availability.repository_breaker import OPEN_BREAKER_OF_REPOSITORY
from sources.declarations.resources import Repository, RepositoryEdit

NEW_KEY = "Of an encrypted one, shown this once: without it no backup there can be read. Keep it elsewhere"


class RepositoryAnswer(Repository):
    """Where backups go: it is written, read, changed and deleted there before one is saved. `breaker`: `open` while all
    that goes there fails, and waits. `away_why`: why it is not where it is said to be; empty: it is, or nothing is
    known."""

    id: int
    away_why: str
    breaker: Literal["closed", "open"]


class RepositoriesOfTheApi(Declared[models.Repository]):
    service, tag, answer = Repositories, "repositories", RepositoryAnswer
    body = RepositoryEdit
    shown_once = {"new_key": (str | None, Field(description=NEW_KEY))}
    filters, orderings = {"name": Name}, ("id", "name")
    removes = True

    def rows(self) -> QuerySet[Any]:
        opened = models.Repository.objects.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY)
        state = Case(
            When(open_breaker=None, then=Value("closed")), default=Value("open"), output_field=CharField(max_length=10)
        )
        return opened.annotate(breaker=state)


router = RepositoriesOfTheApi().router
