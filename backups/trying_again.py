"""Tries failed records again at once, when a user has changed the possible cause: a secret."""

from collections.abc import Iterable

from django.db.models import Q

from jobs import backlog
from jobs.backlog.rows import BATCH, in_batches
from jobs.models import BacklogRecord
from jobs.states import WaitingFor
from sealing.references import PREFIX
from sources import planning
from sources.models import Assignment, Repository, Source

AFTER_A_FAILURE = (WaitingFor.BACKOFF, WaitingFor.BREAKER)
SECRETS = {"secret", "secrets", "key"}
"""The fields of sources and repositories that are references to secrets."""


def after_secret(name: str) -> int:
    """Try the failed records of sources with the stored secret of that name. Returns how many records are ready."""
    reference = f"{PREFIX}{name}"
    sources = _having(Source.objects.exclude(secret="", secrets={}).values_list("pk", "secret", "secrets"), reference)
    homes = _having(Repository.objects.exclude(key="", secrets={}).values_list("pk", "key", "secrets"), reference)
    assignments = Assignment.objects.filter(Q(source__in=sources) | Q(policy__repository__in=homes))
    return of_assignments(assignments.values_list("pk", flat=True))


def of_repository(repository: Repository) -> int:
    """Try the backups that wait since they failed, and go to this repository. Returns how many are ready."""
    return of_assignments(Assignment.objects.filter(policy__repository=repository).values_list("pk", flat=True))


def of_assignments(ids: Iterable[int]) -> int:
    """Try the backups of these assignments that wait since they failed. Returns how many are ready."""
    subjects = [planning.subject_of(pk) for pk in ids]
    ready = 0
    for some in (subjects[start : start + BATCH] for start in range(0, len(subjects), BATCH)):
        waiting = BacklogRecord.objects.waiting().filter(
            kind=planning.KIND, subject__in=some, waiting_for__in=AFTER_A_FAILURE
        )
        for batch in in_batches(list(waiting.values_list("pk", flat=True))):
            ready += len(backlog.retry(batch).ready)
    return ready


def _having(rows: Iterable[tuple[int, str, dict[str, str]]], reference: str) -> list[int]:
    return [pk for pk, one, several in rows if reference in (one, *several.values())]
