from typing import Any

from django.db.models import QuerySet

from declarations.surfaces.commands.base import person
from external.formatting import several
from fleet.management.base import SourcesCommand
from fleet.status import reasons_of
from jobs.clock import database_clock
from sources import planning
from sources.models import Assignment, Source


class Command(SourcesCommand):
    help = (
        "Back up sources now, under all their policies that are enabled, out of period and window; a snooze is over. "
        "What is copied already is left alone. Exit codes: 0; 1 where there was nothing to do; 2 for bad usage."
    )

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        moved = planning.back_up_now(Assignment.objects.filter(source__in=source), asked_by=person())
        if not moved:
            raise ValueError(next(iter(reasons_of(list(source), database_clock()).values())))
        return f"{several(moved, 'backup')} put at the head of the backlog"
