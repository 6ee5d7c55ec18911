from argparse import ArgumentParser
from typing import Any

from django.db.models import QuerySet

from declarations.surfaces.commands.base import person
from fleet.management.base import SourcesCommand
from jobs.conf import PROGRAM
from sources import planning
from sources.models import Source


class Command(SourcesCommand):
    help = (
        f"Pause sources: no more backups of them until `{PROGRAM} resume NAME`. What runs goes on. Exit codes: 0; 1 "
        f"where one was paused before; 2 for bad usage. For a whole queue: `{PROGRAM} backlog pause`; for everything: "
        f"`{PROGRAM} hold`."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", default="", metavar="TEXT", help="why, for those who look next")

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        if not planning.pause(source, reason=options["reason"], by=person()):
            raise ValueError("it was paused before")
        return "no more backups of it until it is resumed; what runs goes on"
