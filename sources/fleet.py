"""Import of a fleet file: repositories, retry policies, policies, sources and who is under which policy.

Rows are matched by name, so importing a file again changes only what the file changed; fields that a row does not
name keep their values. Everything is checked first and every error of the file is reported at once, with row and
field; then all is written in one transaction. The number of statements does not grow with the number of sources.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, OuterRef

from jobs.models import RetryPolicy
from operations import rescheduling, rollouts
from schedules.models import Schedule
from sources import edits, planning
from sources.engines import ENGINES, missing_program
from sources.fleet_format import FleetError, Problems, Rows, read_rows
from sources.fleet_tables import Table, build, by_name
from sources.models import Assignment, Backup, Policy, Repository, Source
from sources.repository_breaker import try_again

__all__ = ["FleetError", "FleetReport", "import_fleet"]

SCHEDULE_FIELDS = ("name", "cron", "zone", "priority", "enabled", "retry_policy")


@dataclass
class FleetReport:
    """Per table, how many rows were created, changed and left as they were.

    `removed`: assignments that the file took away; `emitted`: backlog records; `warnings`: lines for people, of what is
    allowed but may not be meant.
    """

    created: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)
    removed: int = 0
    emitted: int = 0
    warnings: list[str] = field(default_factory=list)


def import_fleet(data: object, origin: str, *, folder: Path | None = None, dry_run: bool = False) -> FleetReport:
    """Import a fleet (the parsed JSON of a fleet file). `origin` names it in messages.

    Relative repository locations count from `folder` (none: the current directory). Missing directories of
    repositories are made. With `dry_run` everything is checked and nothing is kept.

    Raises: FleetError with every error found; nothing is imported then.
    """
    fleet = _Import(Problems(origin), folder or Path.cwd())
    try:
        with transaction.atomic():
            fleet.check(data)
            report = fleet.write()
            if dry_run:
                transaction.set_rollback(True)
            else:
                fleet.make_directories()
    except IntegrityError as error:
        said = str(error).strip().splitlines()[0]
        raise FleetError([f"{origin}: somebody changed the same rows meanwhile ({said}); import it again"]) from error
    return report


class _Import:
    def __init__(self, problems: Problems, folder: Path) -> None:
        self.problems = problems
        self.folder = folder
        self.named: dict[str, set[str]] = {}
        self.memberships: dict[str, list[str]] = {}
        self.surplus: list[Assignment] = []
        self.existing: set[tuple[str, str]] = set()
        self.warnings: list[str] = []

    def check(self, data: object) -> None:
        """Build every row as it will be. Raises: FleetError with all that is wrong."""
        # two imports at once would create the same rows; the second waits here
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtext('sources.fleet'))")
        rows = read_rows(data, self.problems)
        self.named = {section: _names(data, section) for section in rows}
        for row in rows["repositories"].values():
            if "location" in row:
                row["location"] = os.path.abspath(self.folder / row["location"])
        self.repositories = build(Repository, "repositories", rows["repositories"], self.problems)
        self.retry_policies = build(RetryPolicy, "retry_policies", rows["retry_policies"], self.problems)
        self._build_policies(rows["policies"])
        self._check_programs(rows["sources"])
        self._build_sources(rows["sources"])
        self.problems.stop_if_any()

    def _build_policies(self, rows: Rows) -> None:
        """A policy and its schedule are one row of the file."""
        self._resolve(rows, "repository", "repositories", self.repositories)
        self._resolve(rows, "retry_policy", "retry_policies", self.retry_policies)
        names = [row["name"] for row in rows.values()]
        schedules = by_name(Schedule.objects.select_related("retry_policy").filter(name__in=names))
        found = Policy.objects.filter(schedule__name__in=names).select_related("schedule", "repository")
        policies = {policy.schedule.name: policy for policy in found}
        for number, row in rows.items():
            if row["name"] in schedules and row["name"] not in policies:
                self.problems.add("policies", number, row["name"], "name: a schedule of this name is no policy")
        of_schedule = {n: {k: v for k, v in row.items() if k in SCHEDULE_FIELDS} for n, row in rows.items()}
        of_policy = {n: {k: v for k, v in r.items() if k not in SCHEDULE_FIELDS[1:]} for n, r in rows.items()}
        fixed = {"kind": planning.KIND, "provider": "assignments"}
        self.schedules = build(Schedule, "policies", of_schedule, self.problems, schedules, **fixed)
        self.policies = build(Policy, "policies", of_policy, self.problems, policies)
        numbers = {row["name"]: number for number, row in rows.items()}
        for name, policy in self.policies.rows.items():
            policy.schedule = self.schedules.rows[name]
            try:
                self.warnings += [f"policy {name}: {warning}" for warning in policy.check_openings()]
            except ValidationError as error:
                for where, messages in error.message_dict.items():
                    self.problems.add("policies", numbers[name], name, f"{where}: {' '.join(messages)}")

    def _resolve(self, rows: Rows, key: str, section: str, table: Table) -> None:
        """Replace the names in column `key` by rows, of the file or else of the database."""
        model: Any = {"repositories": Repository, "retry_policies": RetryPolicy}[section]
        wanted = {row[key] for row in rows.values() if row.get(key)}
        found = {**by_name(model.objects.filter(name__in=wanted - set(table.rows))), **table.rows}
        for number, row in rows.items():
            name = row.get(key)
            if name is None:
                continue
            if name not in found and name not in self.named[section]:
                self.problems.add(
                    "policies", number, row["name"], f"{key}: there is no {key.replace('_', ' ')} {name!r}"
                )
            row[key] = found.get(name)
            if row[key] is None:
                del row[key]

    def _check_programs(self, rows: Rows) -> None:
        """Each kind once, at the first source of it. An unknown kind is told by the check of its source."""
        first = {row.get("kind"): (number, row["name"]) for number, row in reversed(rows.items())}
        for kind, (number, name) in first.items():
            if kind in ENGINES and (problem := missing_program(kind)):
                self.problems.add("sources", number, name, f"kind: {problem}")

    def _build_sources(self, rows: Rows) -> None:
        listed = {n: (row["name"], row.pop("policies")) for n, row in rows.items() if "policies" in row}
        self.memberships = dict(listed.values())
        self.sources = build(Source, "sources", rows, self.problems)
        wanted = {policy for _, policies in listed.values() for policy in policies}
        others = Policy.objects.filter(schedule__name__in=wanted - set(self.policies.rows)).select_related("schedule")
        self.any_policy = {**self.policies.rows, **{policy.schedule.name: policy for policy in others}}
        for number, (name, policies) in listed.items():
            for policy in dict.fromkeys(policies):
                if policy not in self.any_policy and policy not in self.named["policies"]:
                    self.problems.add("sources", number, name, f"policies: there is no policy {policy!r}")
        self._compare_assignments({name: number for number, (name, _) in listed.items()})

    def _compare_assignments(self, numbers: dict[str, int]) -> None:
        """Which assignments of the listed sources exist, and which of them the file takes away."""
        assignments = Assignment.objects.filter(source__name__in=numbers).select_related("source", "policy__schedule")
        found: Iterable[Any] = assignments.annotate(
            has_backups=Exists(Backup.objects.filter(assignment=OuterRef("pk")))
        )
        for assignment in found:
            source, policy = assignment.source.name, assignment.policy.schedule.name
            if policy in self.memberships[source]:
                self.existing.add((source, policy))
                continue
            self.surplus.append(assignment)
            if assignment.has_backups:
                problem = (
                    f"policies: {policy!r} is taken away, but there are backups under it; keep it in the file, "
                    "or delete the assignment in the admin first"
                )
                self.problems.add("sources", numbers[source], source, problem)

    def write(self) -> FleetReport:
        """Write what `check` built. Returns what was done."""
        Assignment.objects.filter(pk__in=[assignment.pk for assignment in self.surplus]).delete()
        for table, model in (
            (self.repositories, Repository),
            (self.retry_policies, RetryPolicy),
            (self.schedules, Schedule),
            (self.policies, Policy),
            (self.sources, Source),
        ):
            table.write(model)
        wanted = [(source, policy) for source, names in self.memberships.items() for policy in dict.fromkeys(names)]
        created = [
            Assignment(source=self.sources.rows[source], policy=self.any_policy[policy])
            for source, policy in wanted
            if (source, policy) not in self.existing
        ]
        Assignment.objects.bulk_create(created, batch_size=1000)
        for policy in self.policies.rows.values():
            if self._changes_of(policy) & edits.PLANNED_FROM:
                planning.replan(policy)
                said = rollouts.progress("policy", [policy.pk]).values()
                self.warnings += [f"policy {policy}: {each}" for each in said]
            elif policy in self.policies.created:
                planning.limit_seeding(policy)
            if "retry_policy" in self._changes_of(policy):
                transaction.on_commit(partial(rescheduling.follow, policy.schedule))
        for repository, fields in self.repositories.changed.items():
            if "location" in fields:
                try_again(repository, by="a fleet import")
        for retry_policy in self.retry_policies.changed:
            transaction.on_commit(partial(rescheduling.apply, retry_policy))
        assignments = Assignment.objects.filter(source__in=self.sources.rows.values()).order_by("pk")
        report = self._report()
        report.created["assignments"], report.changed["assignments"] = len(created), 0
        report.unchanged["assignments"] = len(wanted) - len(created)
        report.emitted = planning.emit_due(None, assignments.values_list("pk", flat=True))
        return report

    def _changes_of(self, policy: Policy) -> set[str]:
        return self.policies.changed.get(policy, set()) | self.schedules.changed.get(policy.schedule, set())

    def _report(self) -> FleetReport:
        report = FleetReport(removed=len(self.surplus), warnings=self.warnings)
        changed = {
            "repositories": len(self.repositories.changed),
            "retry_policies": len(self.retry_policies.changed),
            "policies": sum(
                bool(self._changes_of(policy))
                for policy in self.policies.rows.values()
                if policy not in self.policies.created
            ),
            "sources": len(self.sources.changed),
        }
        for section, number in changed.items():
            table: Table = getattr(self, section)
            report.created[section], report.changed[section] = len(table.created), number
            report.unchanged[section] = len(table.rows) - len(table.created) - number
        return report

    def make_directories(self) -> None:
        """Make the directories of repositories that are missing. Raises: FleetError; the transaction is undone."""
        for name, repository in self.repositories.rows.items():
            if reason := edits.make_directory(repository.location):
                place = f"{repository.location} cannot be made ({reason})"
                self.problems.add("repositories", None, name, f"location: {place}")
        self.problems.stop_if_any()


def _names(data: object, section: str) -> set[str]:
    """All names in a section, also of rows with errors: a reference to such a row is no error of its own."""
    rows = data.get(section) if isinstance(data, dict) else None
    found = [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {name for name in found if isinstance(name, str)}
