"""`prune` of sources and of policies."""

from argparse import ArgumentParser
from typing import Any

from backups.upkeep import retention, retention_decisions
from declarations.surfaces.commands.base import TerminalCommand
from declarations.surfaces.terminal import columns
from sources.models import Assignment

HELP = (
    "Remove the points in time that their policy does not keep, at the next opening of its window. It happens by "
    "itself after each backup; this is for rules that were just changed. --dry-run: only show which points stay, why, "
    "and which go. Exit code 2 for bad usage."
)
COLUMNS = columns("source", "policy", "point", "verdict")


def add_options(parser: ArgumentParser) -> None:
    """Add the arguments that policies and sources share."""
    parser.add_argument("--dry-run", action="store_true", help="change nothing")


def prune(command: TerminalCommand, options: dict[str, Any], **which: Any) -> None:
    """Remove the points that are not kept of the assignments that `which` filters, or show them."""
    related = Assignment.objects.select_related("source", "policy__schedule", "policy__repository")
    found = list(related.filter(**which).order_by("source__name", "policy__schedule__name"))
    if not options["dry_run"]:
        enqueued = retention.plan(found)
        text = f"{enqueued} of {len(found)} have points to remove, and are on the backlog now."
        command.answer({"enqueued": enqueued}, text)
    elif command.json:
        command.answer([retention_decisions.facts_of(each) for each in found])
    else:
        rows = [row for each in found for row in _rows(each)]
        command.list_out(rows, COLUMNS, tuple, "There are no points: nothing was backed up yet.")


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
