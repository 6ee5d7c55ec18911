"""Import of a fleet file: repositories, retry policies, policies, sources and who is under which policy.

Rows are matched by name, so importing a file again changes only what the file changed. Everything is checked first,
and every error of the file is reported at once, with row and field; then all is written in one transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from jobs.models import RetryPolicy, Schedule
from sources import planning
from sources.engines import ENGINES, missing_program
from sources.models import Assignment, Policy, Repository, Source

SECTIONS = {
    "repositories": ("name", "location"),
    "retry_policies": ("name", "algorithm", "parameters", "max_delay", "max_failures"),
    "policies": (
        "name", "cron", "zone", "repository", "retry_policy", "priority", "enabled", "window", "engine_options",
        "keep_versions", "connect_timeout", "recheck_after", "wake_allowed", "wake_every", "wake_wait",
    ),
    "sources": (
        "name", "kind", "address", "port", "path", "options", "secret", "host_key", "mac_address", "wake_address",
        "wake_port", "wake_allowed", "policies",
    ),
}  # fmt: skip
NEEDED = {
    "repositories": ("name", "location"),
    "retry_policies": ("name", "algorithm"),
    "policies": ("name", "cron", "repository"),
    "sources": ("name", "kind"),
}
SCHEDULE_FIELDS = ("name", "cron", "zone", "priority", "enabled")


class FleetError(ValueError):
    """The fleet file cannot be imported; nothing was. `errors`: one line each, naming file, row and field."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors


@dataclass
class FleetReport:
    """Per table, how many rows were created, changed and left as they were; `emitted` backlog records."""

    created: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    unchanged: dict[str, int] = field(default_factory=dict)
    emitted: int = 0


def import_fleet(data: object, origin: str, *, folder: Path | None = None, dry_run: bool = False) -> FleetReport:
    """Import a fleet (the parsed JSON of a fleet file). `origin` names it in messages.

    Relative repository locations count from `folder`. With `dry_run` everything is checked and nothing is kept.

    Raises: FleetError with every error found; nothing is imported then.
    """
    fleet = _Import(origin, folder or Path.cwd())
    with transaction.atomic():
        report = fleet.run(data)
        if dry_run:
            transaction.set_rollback(True)
    return report


class _Import:
    def __init__(self, origin: str, folder: Path) -> None:
        self.origin = origin
        self.folder = folder
        self.errors: list[str] = []
        self.report = FleetReport()

    def run(self, data: object) -> FleetReport:
        rows = self._sections(data)
        self._stop_if_wrong()
        for row in rows["repositories"]:
            row["location"] = str((self.folder / str(row["location"])).resolve())
        repositories = self._save(Repository, "repositories", rows["repositories"])
        retry_policies = self._save(RetryPolicy, "retry_policies", rows["retry_policies"])
        self._resolve(rows["policies"], "repository", "repositories", repositories)
        self._resolve(rows["policies"], "retry_policy", "retry_policies", retry_policies)
        policies, replanned = self._save_policies(rows["policies"])
        memberships = {str(row["name"]): row.pop("policies", []) for row in rows["sources"]}
        self._check_programs(rows["sources"])
        sources = self._save(Source, "sources", rows["sources"])
        self._check_memberships(rows["sources"], memberships, policies)
        self._stop_if_wrong()
        for repository in repositories.values():
            Path(repository.location).mkdir(parents=True, exist_ok=True)
        assignments = self._assign(sources, memberships, policies)
        self._stop_if_wrong()
        for policy in replanned:
            planning.replan(policy)
        self.report.emitted = planning.emit_due(None, assignments)
        return self.report

    def _wrong(self, section: str, number: int, name: object, problem: str) -> None:
        label = f" ({name})" if isinstance(name, str) else ""
        self.errors.append(f"{self.origin}: {section}[{number}]{label}: {problem}")

    def _stop_if_wrong(self) -> None:
        if self.errors:
            raise FleetError(self.errors)

    def _sections(self, data: object) -> dict[str, list[dict[str, Any]]]:
        """The rows by section, each checked for its shape."""
        if not isinstance(data, dict):
            raise FleetError([f"{self.origin}: is not an object with {', '.join(SECTIONS)}"])
        for unknown in sorted(set(data) - set(SECTIONS)):
            self.errors.append(f"{self.origin}: unknown section {unknown!r}; there are {', '.join(SECTIONS)}")
        return {section: self._rows(section, data.get(section, [])) for section in SECTIONS}

    def _rows(self, section: str, rows: object) -> list[dict[str, Any]]:
        if not isinstance(rows, list):
            self.errors.append(f"{self.origin}: {section}: must be a list")
            return []
        seen: set[str] = set()
        good = []
        for number, row in enumerate(rows):
            if not isinstance(row, dict):
                self._wrong(section, number, None, "is not an object")
                continue
            name = row.get("name")
            for key in sorted(set(row) - set(SECTIONS[section])):
                self._wrong(section, number, name, f"{key}: unknown field; there are {', '.join(SECTIONS[section])}")
            for key in NEEDED[section]:
                if not isinstance(row.get(key), str) or not row[key]:
                    self._wrong(
                        section, number, name, f"{key}: is missing" if key not in row else f"{key}: must be text"
                    )
            if isinstance(name, str):
                if name in seen:
                    self._wrong(section, number, name, "name: stands twice in the file")
                seen.add(name)
            good.append(dict(row))
        return good

    def _resolve(self, rows: list[dict[str, Any]], key: str, section: str, imported: dict[str, Any]) -> None:
        """Replace the names in column `key` by rows, of the file or else of the database."""
        model: Any = {"repositories": Repository, "retry_policies": RetryPolicy}[section]
        for number, row in enumerate(rows):
            name = row.get(key)
            if name is None:
                continue
            found = imported.get(name) or model.objects.filter(name=name).first()
            if found is None:
                self._wrong("policies", number, row["name"], f"{key}: there is no {key.replace('_', ' ')} {name!r}")
            row[key] = found

    def _save(self, model: Any, section: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Create or change rows by name, after a check of each. Returns name → instance."""
        existing = {row.name: row for row in model.objects.filter(name__in=[row["name"] for row in rows])}
        result = {}
        created, changed = [], []
        for number, row in enumerate(rows):
            instance = existing.get(row["name"]) or model()
            before = {key: getattr(instance, key) for key in row}
            for key, value in row.items():
                setattr(instance, key, value)
            self._check(section, number, row["name"], instance)
            if instance.pk is None:
                created.append(instance)
            elif before != row:
                changed.append(instance)
            result[row["name"]] = instance
        if not self.errors:
            self._write(model, section, created, changed, len(rows))
        return result

    def _check(self, section: str, number: int, name: str, instance: models.Model) -> None:
        try:
            # uniqueness is the file's (checked) and the database's
            instance.full_clean(validate_unique=False, validate_constraints=False, exclude=["schedule", "repository"])
        except ValidationError as error:
            for where, messages in error.message_dict.items():
                self._wrong(section, number, name, f"{where}: {' '.join(messages)}")

    def _write(self, model: Any, section: str, created: list[Any], changed: list[Any], total: int) -> None:
        model.objects.bulk_create(created, batch_size=1000)
        if changed:
            columns = [column.name for column in model._meta.concrete_fields if not column.primary_key]
            model.objects.bulk_update(changed, columns, batch_size=500)
        self.report.created[section] = self.report.created.get(section, 0) + len(created)
        self.report.changed[section] = self.report.changed.get(section, 0) + len(changed)
        self.report.unchanged[section] = total - len(created) - len(changed)

    def _save_policies(self, rows: list[dict[str, Any]]) -> tuple[dict[str, Policy], list[Policy]]:
        """Policies with their schedules. Returns name → policy, and those whose period or window changed."""
        names = [row["name"] for row in rows]
        existing = {
            p.schedule.name: p for p in Policy.objects.filter(schedule__name__in=names).select_related("schedule")
        }
        taken = set(Schedule.objects.filter(name__in=names).values_list("name", flat=True)) - set(existing)
        policies, replanned, created, changed = {}, [], 0, 0
        for number, row in enumerate(rows):
            name = row["name"]
            if name in taken:
                self._wrong("policies", number, name, "name: a schedule of this name exists that is no policy")
                continue
            policy = existing.get(name) or Policy(schedule=Schedule(kind=planning.KIND, provider="assignments"))
            before = _facts(policy)
            self._set(policy, row)
            self._check("policies", number, name, policy.schedule)
            self._check("policies", number, name, policy)
            policies[name] = policy
            if policy.pk is None:
                created += 1
            elif before != _facts(policy):
                changed += 1
                if any(before[key] != _facts(policy)[key] for key in ("cron", "zone", "window", "enabled")):
                    replanned.append(policy)
        for policy in [] if self.errors else policies.values():
            policy.schedule.save()
            policy.schedule = policy.schedule  # takes over its new id
            policy.save()
        self.report.created["policies"], self.report.changed["policies"] = created, changed
        self.report.unchanged["policies"] = len(rows) - created - changed
        return policies, replanned

    def _set(self, policy: Policy, row: dict[str, Any]) -> None:
        for key, value in row.items():
            target = policy.schedule if key in (*SCHEDULE_FIELDS, "retry_policy") else policy
            setattr(target, key, value)

    def _check_programs(self, rows: list[dict[str, Any]]) -> None:
        for number, row in enumerate(rows):
            known = row["kind"] in ENGINES  # else the check of the source says so
            if known and (problem := missing_program(row["kind"])):
                self._wrong("sources", number, row["name"], f"kind: {problem}")

    def _check_memberships(
        self, rows: list[dict[str, Any]], memberships: dict[str, Any], policies: dict[str, Policy]
    ) -> None:
        named = {name for names in memberships.values() if isinstance(names, list) for name in names}
        others = Policy.objects.filter(schedule__name__in=named - set(policies)).select_related("schedule")
        policies.update({policy.schedule.name: policy for policy in others})
        for number, row in enumerate(rows):
            names = memberships[row["name"]]
            if not isinstance(names, list):
                self._wrong("sources", number, row["name"], "policies: must be a list of names")
                continue
            for name in names:
                if name not in policies:
                    self._wrong("sources", number, row["name"], f"policies: there is no policy {name!r}")

    def _assign(
        self, sources: dict[str, Source], memberships: dict[str, Any], policies: dict[str, Policy]
    ) -> list[int]:
        """Make the assignments what the file says. Returns the ids of all assignments of these sources."""
        wanted = {(sources[name].pk, policies[policy].pk) for name, names in memberships.items() for policy in names}
        current = Assignment.objects.filter(source__in=[source.pk for source in sources.values()])
        existing = {(assignment.source_id, assignment.policy_id): assignment for assignment in current}
        surplus = [assignment for key, assignment in existing.items() if key not in wanted]
        self._check_surplus(surplus)
        Assignment.objects.filter(pk__in=[assignment.pk for assignment in surplus]).delete()
        created = [Assignment(source_id=s, policy_id=p) for s, p in sorted(wanted - set(existing))]
        Assignment.objects.bulk_create(created, batch_size=1000)
        self.report.created["assignments"] = len(created)
        self.report.changed["assignments"] = len(surplus)
        self.report.unchanged["assignments"] = len(wanted) - len(created)
        return list(current.values_list("pk", flat=True))

    def _check_surplus(self, surplus: Iterable[Assignment]) -> None:
        for assignment in surplus:
            if assignment.backups.exists():
                self.errors.append(
                    f"{self.origin}: {assignment} has backups, but the file takes it away; "
                    "delete the assignment in the admin first, or keep the policy in the file"
                )


def _facts(policy: Policy) -> dict[str, Any]:
    """What a fleet file can say of a policy, for comparison."""
    schedule = policy.schedule
    facts = {key: getattr(schedule, key) for key in (*SCHEDULE_FIELDS, "retry_policy_id")}
    keys: list[str] = [
        key for key in SECTIONS["policies"] if key not in (*SCHEDULE_FIELDS, "retry_policy", "repository")
    ]
    facts |= {key: getattr(policy, key) for key in keys}
    return {**facts, "repository_id": policy.repository_id}
