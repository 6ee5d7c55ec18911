from argparse import ArgumentParser
from typing import Any

from backups.upkeep import retention, retention_decisions
from declarations.surfaces.commands.base import VerbCommand
from declarations.surfaces.terminal import columns
from declarations.unknown import no_such
from sources.models import Assignment, Policy, Source

COLUMNS = columns("source", "policy", "point", "what becomes of it")


class Command(VerbCommand):
    help = (
        "Remove the points in time that their policy does not keep, at the next opening of its window: of a policy, or "
        "of a source. It happens by itself after each backup; this is for rules that were just changed. --dry-run: "
        "only show which points stay, why, and which go. Exit code 2 for bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="of the policy or source")
        parser.add_argument("--dry-run", action="store_true", help="change nothing")
        parser.add_argument(
            "--json", action="store_true", help="print a list of {source, policy, held_back, points}, or {enqueued}"
        )
        parser.set_defaults(verb="plan")

    def _plan(self, options: dict[str, Any]) -> None:
        found = _assignments(options["name"])
        if not options["dry_run"]:
            enqueued = retention.plan(found)
            text = f"{enqueued} of {len(found)} have points to remove, and are on the backlog now."
            self.answer({"enqueued": enqueued}, text)
        elif self.json:
            self.answer([retention_decisions.facts_of(each) for each in found])
        else:
            rows = [row for each in found for row in _rows(each)]
            self.list_out(rows, COLUMNS, tuple, "There are no points: nothing of it was backed up yet.")


def _assignments(name: str) -> list[Assignment]:
    """Of a policy, or else of a source. Raises: ValueError for the name of neither."""
    related = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    ordered = related.order_by("source__name", "policy__schedule__name")
    policies = Policy.objects.values_list("schedule__name", flat=True)
    sources = Source.objects.values_list("name", flat=True)
    if name in list(policies):
        return list(ordered.filter(policy__schedule__name=name))
    if name in list(sources):
        return list(ordered.filter(source__name=name))
    raise ValueError(no_such("policy or source", name, sorted({*policies, *sources})))


def _rows(assignment: Assignment) -> list[tuple[str, ...]]:
    held = "; held back, so nothing goes" if assignment.held_back_since else ""
    return [
        (
            assignment.source.name,
            assignment.policy.schedule.name,
            each.point.name,
            f"stays: {', '.join(each.reasons)}" if each.reasons else f"goes{held}",
        )
        for each in retention_decisions.decide(assignment)
    ]
