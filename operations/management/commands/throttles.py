from typing import Any

from declarations.service import Edit
from declarations.surfaces.commands.declared import DeclaredCommand
from declarations.surfaces.terminal import columns, one_line, table
from jobs.conf import PROGRAM
from operations import throttles
from operations.declarations import Throttles
from operations.throttles import Live
from schedules.models import Schedule

COLUMNS = columns("throttle", "state", "in flight>", "ready>", "waiting>", "rate", "tokens>", "next token")
EMPTY = f"There are no throttles: `{PROGRAM} throttles add NAME --max-in-flight N` makes one."


class Command(DeclaredCommand):
    help = (
        "Show the throttles with what runs, is ready and waits under each, and change them while they are at work: "
        "the next claim goes by it, what runs goes on. Alone: all of them. Exit codes: 0; 1 when a throttle that is in "
        "use is not removed; 2 for bad usage, or when the database does not answer."
    )
    service = Throttles
    examples = {"add": "billing --max-in-flight 20 --rate 5", "set": "billing --rate none", "resume": "billing 20"}

    def add_more_verbs(self, verbs: Any) -> None:
        self.add_named(verbs, "pause", "let nothing more of it begin", several=True)
        resuming = self.add_named(verbs, "resume", "let so many of it run again")
        resuming.add_argument("max_in_flight", type=int, metavar="N", help="how many may run at once")

    def _list(self, options: dict[str, Any]) -> None:
        self._print(throttles.live())

    def _show(self, options: dict[str, Any]) -> None:
        throttle = self.found(options)
        [live] = throttles.live([throttle.pk])
        named_by = Schedule.objects.filter(throttle=throttle).order_by("name").values_list("name", flat=True)
        if self.json:
            self.answer(_facts(live) | {"schedules": list(named_by)})
        else:
            self._print([live])
            self.stdout.write(f"schedules: {one_line(', '.join(named_by) or 'none')}")
        self.warn(throttle, throttles.warnings(throttle, live))

    def _pause(self, options: dict[str, Any]) -> None:
        edits = [self.service().edit(row, {"max_in_flight": 0}) for row in self.all_found(options)]
        self._print(throttles.live([edit.row.pk for edit in edits]))
        for edit in edits:
            self.warn(edit.row, edit.warnings)

    def _resume(self, options: dict[str, Any]) -> None:
        if options["max_in_flight"] < 1:
            raise ValueError("N: at least 1: a throttle of 0 is paused")
        self._set(options)

    def edited(self, edit: Edit, options: dict[str, Any]) -> None:
        self._print(throttles.live([edit.row.pk]))

    def _print(self, found: list[Live]) -> None:
        rows = [(one.throttle.name, *one.shown.values()) for one in found]
        self.answer(list(map(_facts, found)), lambda: table(COLUMNS, rows) if found else EMPTY)


def _facts(one: Live) -> dict[str, Any]:
    """One throttle by name; `next_token_in` is seconds, null without a rate."""
    throttle = one.throttle
    facts = {"id": throttle.pk, "paused": throttle.max_in_flight == 0, "at_least": sorted(one.at_least)}
    facts |= {name: getattr(throttle, name) for name in Throttles.declaration.model_fields}
    return facts | {name: getattr(one, name) for name in ("in_flight", "ready", "waiting", "tokens", "next_token_in")}
