"""The expected starts of backups, a part of a page that is requested after the page itself: of a source under each of
its policies, and of one record."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from dashboard.matrix import of_sources
from declarations.surfaces.patience import TookTooLong, at_most
from fleet.explaining import expected_starts
from jobs.clock import database_clock
from jobs.models import BacklogRecord
from sources.models import Assignment, Source
from sources.planning.names import KIND, subject_of

SECONDS = 3.0
"""The limit of each statement."""


@of_sources
def of_source(request: HttpRequest, source: int) -> HttpResponse:
    """The start of its backup under each policy, or the reason why there is no estimate."""
    return _shown(request, Source.objects.filter(pk=source).first())


@of_sources
def of_record(request: HttpRequest, record: int) -> HttpResponse:
    """The same of one record; nothing, if it is not a backup."""
    row = BacklogRecord.objects.filter(pk=record, kind=KIND).first()
    number = row.subject.removeprefix(subject_of(0)[:-1]) if row else ""
    assignment = Assignment.objects.filter(pk=int(number)).first() if number.isdecimal() else None
    return _shown(request, assignment.source if assignment else None, record)


def _shown(request: HttpRequest, source: Source | None, record: int | None = None) -> HttpResponse:
    """Nothing, if the source was deleted in the meantime."""
    if source is None:
        return HttpResponse("")
    try:
        with at_most(SECONDS):
            found = expected_starts(source, database_clock())
    except TookTooLong as error:
        return HttpResponse(f"<p>No estimate, because {error}.</p>")
    chosen = [(policy, each) for policy, each in found if record is None or each.record == record]
    return render(request, "dashboard/expected.html", {"expected": chosen, "several": len(found) > 1})
