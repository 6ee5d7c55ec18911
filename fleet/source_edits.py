"""Edits of sources, and their effects."""

from collections.abc import Iterable, Sequence
from functools import partial
from shlex import quote

from django.core.exceptions import ValidationError
from django.db import transaction

from backups import trying_again
from backups.upkeep import removals
from declarations.service import Service
from fleet import duplicates
from fleet.repository_edits import REMOVES, first_messages, points_of
from sealing.lookup import problem_with_stored
from sources import planning
from sources.declarations import overlaps, reach, resources
from sources.models import Backup, Copy, Repository, Source
from sources.planning import retirement

MOST_ALIKE = 20
"""Sources of a fleet file that are named as the same place as others."""


class Sources(Service[Source]):
    model, declaration = Source, resources.SourceDeclaration
    looks_again = True
    """True if saving a source without a change records the place that its path leads to now."""

    def problems(self, row: Source, changed: set[str] | None) -> dict[str, str]:
        """Problems by field; a secret that the account may not have sent elsewhere is cleared."""
        self.notices: list[str] = []
        try:
            if self.account:
                reach.check_answers(row)
            self._look_where_it_leads(row, changed)
            places = self.remembered("places", overlaps.OurPlaces.now)
            overlaps.check_source(row, self.remembered("repositories", lambda: list(Repository.objects.all())), places)
            if self.account:
                self.notices = reach.check_source(self.account, row)
        except ValidationError as error:
            return first_messages(error)
        if self.notices and changed is not None:
            changed |= {"secret", "secrets"}
        references = [("secret", row.secret), *(("secrets", each) for each in row.secrets.values())]
        return {
            field: problem
            for field, reference in references
            if (changed is None or field in changed)
            and (problem := self.remembered(("secret", reference), partial(problem_with_stored, reference)))
        }

    def _look_where_it_leads(self, row: Source, changed: set[str] | None) -> None:
        """Record the place that its path leads to. Other edits leave it as it is: others may have
        changed links since.
        """
        is_again = changed is not None and not changed and self.looks_again and row.real_path
        if changed is None or not changed.isdisjoint({"kind", "path"}) or is_again:
            before, row.real_path = row.real_path, reach.place_of(self.account, row)
            if changed is not None and row.real_path != before:
                changed.add("path")

    def write(self, row: Source, changed: set[str] | None) -> list[str]:
        self._retire([(row, changed)])
        super().write(row, changed and _columns(changed))
        if changed is not None:
            emit_after_commit(row.assignments.values_list("pk", flat=True))
        if changed and not changed.isdisjoint(trying_again.SECRETS):
            ids = list(row.assignments.values_list("pk", flat=True))
            transaction.on_commit(partial(trying_again.of_assignments, ids))
        return [*self.notices, *duplicates.alike(_placed([(row, changed)])).values()]

    def write_all(self, edits: Sequence[tuple[Source, set[str] | None]]) -> list[str]:
        """Write many sources, in about as many statements for a hundred thousand as for some thousands; the caller
        emits the assignments that are due.
        """
        Source.objects.bulk_create([row for row, changed in edits if changed is None], batch_size=1000)
        self._retire(edits)
        fields = _columns(set[str]().union(*(changed for _, changed in edits if changed)))
        if fields:
            Source.objects.bulk_update([row for row, changed in edits if changed], sorted(fields), batch_size=500)
        placed: list[int] = self.remembered("placed", list)
        placed += (row.pk for row in _placed(edits))
        return []

    def all_written(self) -> list[str]:
        """Warnings about written sources that have the place of another source."""
        placed, found = self.remembered("placed", list[int]), list[str]()
        for start in range(0, len(placed), duplicates.AT_ONCE):
            rows = Source.objects.in_bulk(placed[start : start + duplicates.AT_ONCE])
            twice = duplicates.alike([rows[pk] for pk in placed[start : start + duplicates.AT_ONCE] if pk in rows])
            found += (f"source {rows[pk].name}: {text}" for pk, text in twice.items())
            if len(found) >= MOST_ALIKE:
                break
        return found[:MOST_ALIKE]

    def _retire(self, edits: Sequence[tuple[Source, set[str] | None]]) -> None:
        """Apply the effects of retiring, or of ending it."""
        turned = [row for row, changed in edits if changed and "retired" in changed]
        for verb, rows in (
            (retirement.retire, [row for row in turned if row.retired]),
            (retirement.unretire, [row for row in turned if not row.retired]),
        ):
            if rows:
                verb(rows, by=self.by)

    def obstacle(self, row: Source) -> str:
        return removals.obstacle(row, self.remembered("removals", removals.under_way))

    def users(self, row: Source) -> list[str]:
        """The rows that use it, its backups aside."""
        return []

    def uses(self, row: Source) -> list[str]:
        backups, copies = Backup.objects.filter(assignment__source=row), Copy.objects.filter(assignment__source=row)
        return points_of(backups, copies, REMOVES.format("sources", quote(row.name)))


def _placed(edits: Sequence[tuple[Source, set[str] | None]]) -> list[Source]:
    """The sources that are new, or in another place than before."""
    return [row for row, changed in edits if changed is None or not changed.isdisjoint(duplicates.PLACE)]


def _columns(changed: set[str]) -> set[str]:
    """The columns that an edit of these fields of a source writes."""
    return (changed | ({"real_path"} if "path" in changed or "kind" in changed else set())) - {"retired"}


def policies_of(source: Source) -> list[str]:
    """The names of the policies that it is under."""
    return sorted(assignment.policy.schedule.name for assignment in source.assignments.all())


def emit_after_commit(assignment_ids: Iterable[int]) -> None:
    """Put due backups of these assignments on the backlog once they are committed: a new one is due at once."""
    ids = list(assignment_ids)
    transaction.on_commit(lambda: planning.emit_due(None, ids))
