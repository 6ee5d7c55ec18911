from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.base import VerbCommand, person, without_its_log_lines
from jobs import backlog


class Command(VerbCommand):
    help = (
        "End the hold of everything: all that waits goes on, what was stopped starts again. Queues that were paused by "
        "themselves stay so. Exit codes: 0, also when nothing was on hold; 2 when the database does not answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print {changed}")
        parser.set_defaults(verb="release")

    def _release(self, options: dict[str, Any]) -> None:
        with without_its_log_lines():
            changed = backlog.release(by=person())
        self.answer({"changed": changed}, "work goes on" if changed else "nothing was on hold")
