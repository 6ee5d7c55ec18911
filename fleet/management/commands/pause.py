from argparse import ArgumentParser
from typing import Any

from django.db.models import QuerySet

from declarations.surfaces import pausing
from declarations.surfaces.commands.base import person
from external.formatting import moment
from fleet.management.base import SourcesCommand
from jobs.conf import PROGRAM
from sources import planning
from sources.models import Policy, Source


class Command(SourcesCommand):
    help = (
        f"Pause sources, or with --policy policies: no more backups of them until `{PROGRAM} resume NAME`, or by "
        "itself at --until. What runs goes on. Exit codes: 0; 1 where one was so before; 2 for bad usage. For a "
        f"whole queue: `{PROGRAM} backlog pause`; for everything: `{PROGRAM} hold`."
    )
    takes_policies = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        pausing.add_options(parser)

    def _all(self, options: dict[str, Any]) -> None:
        super()._all(options | {"asked": pausing.asked(options)})

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        return _done(planning.pause(source, by=person(), **options["asked"]), options["asked"])

    def act_on_policy(self, policy: Policy, options: dict[str, Any]) -> str:
        from fleet import pauses

        return _done(pauses.pause_policy(policy, by=person(), **options["asked"]), options["asked"])


def _done(changed: int, asked: pausing.Pausing) -> str:
    if not changed:
        raise ValueError("it was paused before")
    end = f"{moment(asked['until'])} UTC" if asked["until"] else "it is resumed"
    return f"no more backups of it until {end}; what runs goes on"
