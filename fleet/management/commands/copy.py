from collections.abc import Iterable
from typing import Any

from backups.upkeep import copies
from declarations.surfaces.commands.base import person
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import AskingCommand
from sources.models import Copy


class Command(AskingCommand):
    help = (
        "Show the copies of sources in other repositories: when each last had all points, and since when one is not "
        "there; with a SOURCE: copy it now, whatever its window. A worker does it. Exit codes: 0; 1 when there is "
        "nothing to copy, or it is copied already; 2 for bad usage."
    )
    rows = Copy.objects
    columns = columns("source", "policy", "repository", "last success (UTC)", "points", "behind since (UTC)", "error")
    facts = {
        "source": "assignment__source__name",
        "policy": "assignment__policy__schedule__name",
        "repository": "repository__name",
        "copied_at": "copied_at",
        "points": "points",
        "to_copy_since": "assignment__to_copy_since",
        "error": "error",
    }
    empty = "There are no copies: a policy wants them by `copy_to`, and they come after its next backups."
    idle = "it has no backup, its policy names no second repository (copy_to), or it is copied already"

    def ask(self, ids: Iterable[int]) -> int:
        return copies.copy_now(ids, by=person())

    def row(self, found: dict[str, Any]) -> tuple[object, ...]:
        *names, copied, points, behind, error = found.values()
        return *names, moment(copied), len(points), moment(behind), error
