from typing import Any

from django.db.models import Count, QuerySet

from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns
from external.formatting import moment
from jobs.conf import PROGRAM
from sources.models import Policy


class Command(DeclaredCommand):
    help = (
        "Policies: how often sources are backed up, in which window, to where, and how. Alone, or with list: "
        "all of them. Exit codes: 0; 1 when one is in use, or already was in that state; 2 for bad usage, with "
        "nothing saved, or when the database does not answer."
    )
    title = "policy"
    columns = columns("policy", "cron", "zone", "repository", "sources>", "next trigger (UTC)")
    empty = f"There are no policies yet: `{PROGRAM} policies add NAME --cron … --repository …` makes one."
    examples = {
        "add": "daily --cron '0 9 * * *' --zone Europe/Berlin --repository office "
        '--set window=\'[{"days": "mon-fri", "start": "09:00", "end": "17:00"}]\'',
        "set": "daily --priority 5",
        "pause": 'daily --until 7d --reason "the office is closed"',
        "prune": "daily --dry-run",
    }  # fmt: skip

    @property
    def service(self) -> Any:  # type: ignore[override]
        from fleet.policy_edits import Policies  # loads pydantic, which a list does without

        return Policies

    def rows(self) -> QuerySet[Any]:
        found = Policy.objects.select_related("schedule__throttle", "schedule__retry_policy", "repository")
        return found.annotate(sources=Count("assignments")).order_by("schedule__name")

    def facts(self, row: Any) -> dict[str, Any]:
        """The whole declaration of a policy, when it is next due, and in a list the number of its sources."""
        schedule = row.schedule
        found: dict[str, Any] = (
            {"id": row.pk} | self.service().values(row) | {"next_trigger_at": schedule.next_trigger_at}
        )
        found |= {"paused_until": row.paused_until, "paused_why": row.paused_why}
        return found | ({"sources": row.sources} if hasattr(row, "sources") else {})

    def cells(self, facts: dict[str, Any]) -> tuple[object, ...]:
        until = f" until {moment(facts['paused_until'])}" if facts["paused_until"] else ""
        due = moment(facts["next_trigger_at"]) if facts["enabled"] else f"paused{until}"
        return facts["name"], facts["cron"], facts["zone"], facts["repository"], facts["sources"], due
