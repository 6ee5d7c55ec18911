from collections.abc import Iterable
from typing import Any

from backups.restores import drills
from declarations.surfaces.commands.base import person
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.management.base import AskingCommand


class Command(AskingCommand):
    help = (
        "Show what was last proved restorable by a drill, and when; with a SOURCE: drill it now, whatever its window. "
        "A drill restores the newest point, or a sample of it, into scratch space, and compares it; a database into a "
        "scratch server. A worker does it. Exit codes: 0; 1 when there is nothing to drill, or it is drilled already; "
        "2 for bad usage."
    )
    idle = "it has no backup, is paused, or a drill of it is on the backlog already"
    columns = columns(
        "source", "policy", "last success (UTC)", "last proved (UTC)", "point", "why the last drill failed"
    )
    facts = {
        "source": "source__name",
        "policy": "policy__schedule__name",
        "last_backup_at": "last_backup_at",
        "proved_at": "proved_at",
        "proved_point": "proved_point",
        "error": "drill_error",
        "facts": "drill_facts",
    }

    def ask(self, ids: Iterable[int]) -> int:
        return drills.drill_now(ids, by=person())

    def row(self, found: dict[str, Any]) -> tuple[object, ...]:
        source, policy, last, proved, point, error, _ = found.values()
        return source, policy, moment(last), moment(proved), point, error
