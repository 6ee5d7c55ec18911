from argparse import ArgumentParser
from typing import Any

from declarations.surfaces.commands.nouns import NounCommand
from declarations.surfaces.terminal import columns
from external.formatting import moment
from fleet.explaining.restores import RestoreState, states_of
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.backlog.arguments import LARGEST_ID, number
from sources.models import Restore

SHOWN = 20
COLUMNS = columns(
    "id>", "source", "as of", "to", "asked (UTC)", "by", "ended (UTC)", "outcome", "error, or why it waits"
)
RELATED = ("assignment__source", "assignment__policy__schedule", "repository")


class Command(NounCommand):
    help = (
        "Restores: bring backups back, and prove that it works. Alone, or with list: the restores that were "
        "requested on the web pages or over the API, the latest first. Exit codes: 0; 1 when something could "
        "not be restored; 2 for bad usage."
    )
    examples = {
        "points": "laptop-7 --at yesterday --path Documents",
        "run": "laptop-7 --at 24h --to /tmp/laptop-7",
        "drill": "laptop-7 shop",
    }

    def add_verbs(self, verbs: Any) -> None:
        self.add_verb(verbs, "list", "list those that were requested, as without a verb", later=_limited)
        shows = self.add_verb(verbs, "show", "show one that was requested")
        shows.add_argument("id", type=number("id of a restore", LARGEST_ID), metavar="ID", help="as `list` shows")

    def _list(self, options: dict[str, Any]) -> None:
        rows = list(Restore.objects.select_related(*RELATED)[: options.get("limit", SHOWN)])
        states = states_of(rows, database_clock())
        empty = f"No restore was requested yet: `{PROGRAM} restores run NAME --to FOLDER` restores without the web."
        self.list_out([_facts(row, states[row.pk]) for row in rows], COLUMNS, _row, empty)

    def _show(self, options: dict[str, Any]) -> None:
        row = Restore.objects.select_related(*RELATED).filter(pk=options["id"]).first()
        if row is None:
            raise ValueError(f"there is no restore {options['id']}; `{PROGRAM} restores list` shows some")
        more = ("paths", "size", "present", "not_set", "old", "missing", "failed")
        state = states_of([row], database_clock())[row.pk]
        self.show_out(_facts(row, state) | {name: getattr(row, name) for name in more})


def _limited(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=number("number", 10_000), default=SHOWN, metavar="N", help=f"at most this many ({SHOWN})"
    )


def _facts(row: Restore, state: RestoreState) -> dict[str, Any]:
    target = row.target or ("in place" if row.to == "source" else "")
    return {
        "id": row.pk, "source": row.assignment.source.name, "policy": str(row.assignment.policy),
        "repository": row.repository and row.repository.name, "point": row.point, "to": row.to, "target": target,
        "asked_at": row.asked_at, "asked_by": row.asked_by, "ended_at": row.ended_at,
        "outcome": state.word, "why": state.why, "error": row.error, "files": row.files,
    }  # fmt: skip


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    where = f"{facts['to']}: {facts['target']}"
    ended, text = moment(facts["ended_at"]), next(iter([*facts["why"], *facts["error"].splitlines()]), "")
    return (
        facts["id"], facts["source"], facts["point"], where, moment(facts["asked_at"]), facts["asked_by"], ended,
        facts["outcome"], text,
    )  # fmt: skip
