from argparse import ArgumentParser
from typing import Any

from declarations.service import Edit
from declarations.surfaces import pausing
from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns, one_line, table
from jobs.conf import PROGRAM
from operations import throttle_pauses, throttles
from operations.declarations import Throttles
from operations.throttles import Live
from schedules.models import Schedule

COLUMNS = columns("throttle", "state", "in flight>", "ready>", "waiting>", "rate", "tokens>", "next token")
EMPTY = f"There are no throttles: `{PROGRAM} throttles add NAME --max-in-flight N` makes one."


class Command(DeclaredCommand):
    help = (
        "Show the throttles with their running, ready and waiting records, and change them while they are in "
        "use: the next claim follows them, running records continue. Alone: all of them. Exit codes: 0; 1 when "
        "a throttle that is in use is not removed; 2 for bad usage, or when the database does not answer."
    )
    service = Throttles
    examples = {
        "add": "billing --max-in-flight 20 --rate 5", "set": "billing --rate none",
        "pause": 'billing --until 2h --reason "the receiver moves"', "resume": "billing --max-in-flight 20",
    }  # fmt: skip

    def add_more_verbs(self, verbs: Any) -> None:
        what = "begin none of its records until a time or until it is resumed"
        pausing.add_options(self.add_named(verbs, "pause", what, several=True))
        what = "let as many of its records run at once as before its pause"
        self.add_each(verbs, "resume", what, later=_resuming)

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
        asked = pausing.asked(options)
        edits = [throttle_pauses.pause(row, **asked) for row in self.all_found(options)]
        self._print(throttles.live([edit.row.pk for edit in edits]))
        for edit in edits:
            self.warn(edit.row, edit.warnings)

    def _resume(self, options: dict[str, Any]) -> None:
        self.report(throttle_pauses.resume(self.found(options), options["max_in_flight"]), options)

    def edited(self, edit: Edit, options: dict[str, Any]) -> None:
        self._print(throttles.live([edit.row.pk]))

    def _print(self, found: list[Live]) -> None:
        shown = [one.shown | ({"state": words} if (words := one.throttle.paused_words) else {}) for one in found]
        rows = [(one.throttle.name, *each.values()) for one, each in zip(found, shown, strict=True)]
        self.answer(list(map(_facts, found)), lambda: table(COLUMNS, rows) if found else EMPTY)


def _resuming(parser: ArgumentParser) -> None:
    from declarations.shapes import shapes_of  # loads pydantic, which a list does without
    from declarations.surfaces.commands.options import reader_of

    read = reader_of(shapes_of(Throttles.declaration)["max_in_flight"])
    parser.add_argument("--max-in-flight", type=read, metavar="N", help="this many (as many as before its pause)")


def _facts(one: Live) -> dict[str, Any]:
    """One throttle by name; `next_token_in` is seconds, null without a rate."""
    throttle = one.throttle
    facts = {"id": throttle.pk, "paused": throttle.max_in_flight == 0, "at_least": sorted(one.at_least)}
    facts |= {name: getattr(throttle, name) for name in Throttles.declaration.model_fields}
    facts |= {name: getattr(throttle, name) for name in ("paused_until", "paused_why")}
    return facts | {name: getattr(one, name) for name in ("in_flight", "ready", "waiting", "tokens", "next_token_in")}
