from collections.abc import Iterable
from typing import Any

from jobs.formatting import moment
from operations.management.base import person
from operations.terminal import columns
from sources.management.base import AskingCommand
from sources.restores import drills


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
