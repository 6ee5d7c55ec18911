"""The list of backups, of which there may be millions: the ones that it looks at, and the search in it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from declarations.surfaces.admin.base import ByIds, IdPaginator
from fleet.past_backups import is_small
from operations.admin.filters import row_id
from operations.admin.large_pages import LargePage
from sources.models import Assignment, Backup, Source

MOST_SEARCHED = 1000
"""Assignments, or points, that a search names one by one. If there are more, some are met soon, from the latest on."""


def _assignments_found(request: HttpRequest, words: Sequence[str]) -> list[int]:
    """Assignments whose sources have these words in their names, one more than are named: looked for once a request."""
    found: list[int] | None = getattr(request, "assignments_found", None)
    if found is None:
        rows = _of_sources(words).values_list("pk", flat=True)
        found = request.assignments_found = list(rows[: MOST_SEARCHED + 1])  # type: ignore[attr-defined]
    return found


def _of_sources(words: Sequence[str]) -> QuerySet[Assignment]:
    return Assignment.objects.filter(*(Q(source__name__icontains=word) for word in words)).order_by()


def of_many_sources(words: Iterable[str]) -> Q:
    """The condition of the same, read as a whole: without the OR the planner, which expects few sources, would look up
    the assignments of each."""
    sources = Source.objects.filter(*(Q(name__icontains=word) for word in words)).order_by().values("pk")
    return Q(source__in=sources) | Q(source__in=[0])


def _points_found(text: str) -> list[int]:
    """The backups whose points have a name that begins so, at most as many as are named; none without a text."""
    if not (begins := text.strip()):
        return []
    points = Backup.objects.filter(snapshot__startswith=begins).order_by().values_list("pk", flat=True)
    return list(points[:MOST_SEARCHED])


def searched(request: HttpRequest, backups: QuerySet[Backup], text: str) -> QuerySet[Backup]:
    """Find the sources by their names first, and points by an index, so that only backups that match are read."""
    if not (words := text.split()):
        return backups
    pks = _points_found(text)
    ids = _assignments_found(request, words)
    if len(ids) <= MOST_SEARCHED:
        return backups.filter(Q(assignment__in=ids) | Q(pk__in=pks))
    # without the OR the planner, which expects few, would read and sort the backups of each assignment
    many = Assignment.objects.filter(of_many_sources(words)).order_by().values("pk")
    return backups.filter(Q(assignment__in=many) | Q(pk__in=pks or [0]))


class BackupPaginator(IdPaginator):
    """Pages of backups by their end."""

    indexed = ("-ended_at", "-pk")


class BackupPage(LargePage, ByIds):
    """A page of the list of backups."""

    rows, by_end = "backups", "ended_at"

    def narrower(self, asked: Mapping[str, str]) -> str:
        policy = "a smaller policy" if asked.get("policy") else "a policy"
        return f"{policy}, a day, or {'more words' if self.query.strip() else 'a search for a source'}"

    def get_queryset(self, request: HttpRequest, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        words = self.query.split()
        self.finds_few = bool(words) and len(_assignments_found(request, words)) <= MOST_SEARCHED
        return super().get_queryset(request, *args, **kwargs)

    def ids_of_page(self) -> list[Any]:
        """The ids that were found for the count already, in the usual order of the list."""
        shows_a_page = not (self.multi_page and self.show_all)
        ids = self.paginator.ids_of(self.page_num if self.multi_page else 1) if shows_a_page else None
        return super().ids_of_page() if ids is None else ids

    def is_of_few(self, asked: Mapping[str, str]) -> bool:
        return self.finds_few or is_small(row_id(asked.get("policy")))

    def is_certain(self, asked: Mapping[str, str], by_end: bool) -> bool:
        """True also if words begin the name of a point, which may be of any age."""
        return self.is_of_few(asked) or bool(_points_found(self.query))
