from typing import Any

from django.db.models import QuerySet

from declarations.surfaces.commands.base import person
from fleet.management.base import SourcesCommand
from sources import planning
from sources.models import Policy, Source


class Command(SourcesCommand):
    help = (
        "Back up paused sources again, or with --policy those of paused policies, at once what is due. Exit codes: 0; "
        "1 where one was not paused; 2 for bad usage."
    )
    takes_policies = True

    def act(self, source: QuerySet[Source], options: dict[str, Any]) -> str:
        return _done(planning.resume(source, by=person()))

    def act_on_policy(self, policy: Policy, options: dict[str, Any]) -> str:
        from fleet import pauses

        return _done(pauses.resume_policy(policy, by=person()))


def _done(changed: int) -> str:
    if not changed:
        raise ValueError("it was not paused")
    return "it is backed up again; what is due is on the backlog"
