from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from backups.upkeep import checks
from declarations.surfaces.commands.base import person
from declarations.surfaces.terminal import columns
from declarations.unknown import named
from external.formatting import moment
from fleet.management.base import AskingCommand
from sources.models import Repository


class Command(AskingCommand):
    help = (
        "Show what was last read in repositories and compared with the manifests, and what is damaged; with a SOURCE "
        "or a --repository: read now all that the round under way has left, whatever the window, in all repositories "
        "of the source, or in that one. A worker does it. "
        "Exit codes: 0; 1 when there is nothing to check, or it is checked already; 2 for bad usage."
    )
    idle = "it has no backup, is paused, or a check of it is on the backlog already"
    columns = columns("source", "policy", "last read (UTC)", "all of it (UTC)", "damaged", "the first of them")
    facts = {
        "source": "source__name",
        "policy": "policy__schedule__name",
        "checked_at": "check_round__checked_at",
        "ended_at": "check_round__ended_at",
        "damage": "check_round__damage",
    }
    repository: Repository | None = None

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--repository", metavar="NAME", help="all that lies in a repository")

    def named_by(self, options: dict[str, Any]) -> tuple[object, Iterable[int]] | None:
        if options["repository"] is None:
            return super().named_by(options)
        self.repository = named(Repository.objects, options["repository"])
        return self.repository, checks.lying_in(self.repository)

    def ask(self, ids: Iterable[int]) -> int:
        return checks.check_now(ids, by=person(), repository=self.repository)

    def row(self, found: dict[str, Any]) -> tuple[object, ...]:
        source, policy, checked, ended, damage = found.values()
        first = "".join(f"{each['path']} of {each['point']}: {each['why']}" for each in (damage or [])[:1])
        return source, policy, moment(checked), moment(ended), len(damage or []), first
