from typing import Any

from django.db.models import QuerySet

from declarations.surfaces.commands.base import person
from fleet.management.base import SourcesCommand
from sources import planning
from sources.models import Source


class Command(SourcesCommand):
    help = (
        "Back up paused sources again, at once what is due. Exit codes: 0; 1 where one was not paused; 2 for bad usage."
    )

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        if not planning.resume(source, by=person()):
            raise ValueError("it was not paused")
        return "it is backed up again; what is due is on the backlog"
