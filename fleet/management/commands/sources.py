from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.db.models import QuerySet

from declarations.surfaces.commands.declared_commands import DeclaredCommand
from declarations.surfaces.terminal import columns, one_line, table
from declarations.unknown import named
from external.durations import span
from external.formatting import moment
from fleet.status import FIRST_STEPS, reasons_of, with_assignment_status, with_status, worst_first
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.backlog.arguments import number
from sources.domain.status import ProtectionStatus
from sources.models import Assignment, Policy, Source

if TYPE_CHECKING:
    from declarations.service import Edit

SHOWN = 100
"""The most sources of a list."""
COLUMNS = columns("source", "kind", "status", "last backup (UTC)", "policies", "why")
OF_ASSIGNMENT = columns("policy", "status", "last backup (UTC)", "took", "next-backup date (UTC)", "failures>")


class Command(DeclaredCommand):
    help = (
        "Sources: what is protected. Alone, or with list: all of them, the worst first, each with its status. Exit "
        "codes: 0; 1 when none matched, or nothing was to be done; 2 for bad usage, or when the database does not "
        "answer."
    )
    title = "source"
    examples = {
        "list": "--status overdue --policy daily",
        "add": "papers --kind local --path /srv/papers --policies daily\n"
        f"  {PROGRAM} sources add laptop-7 --kind sftp --address 192.0.2.7 --path /home --policies daily "
        "--secret stored:laptop-7 --host-key 'ssh-ed25519 AAAA…' --set 'options={\"user\": \"backup\"}'",
        "set": "laptop-7 --address 192.0.2.8",
        "pause": 'laptop-7 laptop-8 --until 7d --reason "on leave"',
        "remove": "laptop-7 --with-backups",
        "prune": "laptop-7 --dry-run",
    }

    @property
    def service(self) -> Any:  # type: ignore[override]
        from fleet.files.services import SourcesUnderPolicies  # loads pydantic, which a list does without

        return SourcesUnderPolicies

    def list_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--status", choices=[each.value for each in ProtectionStatus], metavar="STATUS",
            help=f"in this status: {', '.join(ProtectionStatus)}; without it: all but retired ones",
        )  # fmt: skip
        parser.add_argument("--policy", metavar="NAME", help="under this policy")
        parser.add_argument("--limit", type=number("number", 100_000), default=SHOWN, metavar="N", help=f"({SHOWN})")

    def remove_arguments(self, parser: ArgumentParser) -> None:
        from fleet.management import removal  # loads the modules that work on repositories, which a list does not need

        removal.add_arguments(parser)

    def _list(self, options: dict[str, Any]) -> None:
        now, rows, limit = database_clock(), Source.objects.with_protection(), options.get("limit", SHOWN)
        only = ProtectionStatus(options["status"]) if options.get("status") else None
        rows = rows if only else rows.filter(retired_at=None)
        if options.get("policy"):
            policy = named(Policy.objects, options["policy"], "schedule__name")
            rows = rows.filter(pk__in=Assignment.objects.filter(policy=policy).values("source"))
        found = worst_first(rows.prefetch_related("assignments__policy__schedule"), now, limit + 1, only)
        facts = _facts(found[:limit])
        if facts or self.json:
            self.answer(facts, lambda: table(COLUMNS, map(_row, facts)))
        if len(found) > limit and not self.json:
            self.stdout.write("there are more: ask with --status, --policy or --limit")
        if not facts:
            missing = "no source matches" if Source.objects.exists() else f"there are no sources yet. {FIRST_STEPS}."
            raise CommandError(missing, returncode=1)

    def _show(self, options: dict[str, Any]) -> None:
        now = database_clock()
        source = named(Source.objects, options["which"])
        [facts] = _facts(with_status(Source.objects.with_protection(), now).filter(pk=source.pk))
        related = Assignment.objects.filter(source=source).select_related("policy__schedule")
        assignments = list(with_assignment_status(related, now).order_by("policy__schedule__name"))
        names = ("last_backup_at", "last_backup_for", "last_backup_size", "next_backup_at", "failures", "overdue_since")
        under = [
            {"policy": str(each.policy), "status": each.status} | {name: getattr(each, name) for name in names}
            for each in assignments
        ]
        if self.json:
            self.answer(facts | {"assignments": under})
            return
        self.stdout.write(f"{one_line(source)} ({source.get_kind_display()}): {facts['status']}")
        self.stdout.write(one_line(facts["reason"]))
        if under:
            rows = (
                (each["policy"], each["status"], moment(each["last_backup_at"]), span(each["last_backup_for"]),
                 moment(each["next_backup_at"]), each["failures"] or "")
                for each in under
            )  # fmt: skip
            self.print_out(table(OF_ASSIGNMENT, rows))

    def edited(self, edit: "Edit", options: dict[str, Any]) -> None:
        done = "added" if edit.changed is None else "changed"
        self.answer({"id": edit.row.pk} | self.service().values(edit.row), f"{one_line(edit.row)} was {done}")

    def _remove(self, options: dict[str, Any]) -> None:
        from fleet.management import removal

        removal.remove(self, self.service(), self.all_found(options), options)


def _row(facts: dict[str, Any]) -> tuple[object, ...]:
    policies = ", ".join(facts["policies"])
    return facts["name"], facts["kind"], facts["status"], moment(facts["last_backup_at"]), policies, facts["reason"]


def _facts(sources: QuerySet[Any] | list[Any]) -> list[dict[str, Any]]:
    reasons = reasons_of(list(sources), database_clock())
    return [
        {
            "name": each.name, "kind": each.kind, "status": each.status, "reason": reasons[each.pk],
            "policies": sorted(str(assignment.policy) for assignment in each.assignments.all()),
            "last_backup_at": each.last_backup_at, "next_backup_at": each.next_backup_at,
            "proved_at": each.proved_at, "paused_at": each.paused_at,
            "paused_until": each.paused_until, "paused_by_user": each.paused_by_user,
        }
        for each in sources
    ]  # fmt: skip
