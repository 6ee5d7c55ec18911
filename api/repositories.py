"""Repositories, with the state of their circuit breakers. The new key of an encrypted one is in one answer only."""

from typing import Any, Literal

from django.db.models import BooleanField, Case, CharField, ExpressionWrapper, F, Q, QuerySet, Value, When
from ninja import Field

from api.declared_resources import DeclaredResource
from api.fields import Name
from fleet.repository_edits import Repositories
from sources import models
from sources.availability.repository_breaker import OPEN_BREAKER_OF_REPOSITORY
from sources.declarations.resources import RepositoryDeclaration, RepositoryEdit

NEW_KEY = (
    "The key of an encrypted repository, shown this once: without it no backup there can be read. Keep it elsewhere"
)


class RepositoryAnswer(RepositoryDeclaration):
    """A place for backups. A directory is written, read and deleted before it is saved; a remote is saved first, and
    nothing is sent there until that has worked: `tested` is false until then, and `test_result` says why. `breaker`:
    `open` while all work with it fails, and waits. `away_why`: why it is not at its location; empty if it is, or
    nothing is known.
    """

    id: int
    away_why: str
    tested: bool
    test_result: str
    breaker: Literal["closed", "open"]


class RepositoriesOfTheApi(DeclaredResource[models.Repository]):
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
        tested = ExpressionWrapper(Q(untried=""), BooleanField())
        return opened.annotate(breaker=state, tested=tested, test_result=F("tried"))


router = RepositoriesOfTheApi().router
