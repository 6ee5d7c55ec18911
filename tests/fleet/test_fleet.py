"""The import of fleet files, through the function and through the command."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from fleet.files import apply
from fleet.files.apply import apply_fleet
from fleet.files.schema import FleetError, FleetReport
from jobs.models import BacklogRecord, RetryPolicy
from jobs.states import Status
from schedules.models import Schedule
from sources.models import Assignment, Backup, Copy, Policy, Repository, Source
from tests.commands import command
from tests.sources.factories import HOST_KEY
from tests.threads import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

FIXTURES = Path(__file__).parents[2] / "fixtures"


def small_fleet(folder: Path) -> dict[str, Any]:
    return {
        "repositories": [{"name": "office", "location": str(folder / "repository")}],
        "retry_policies": [{"name": "patient", "algorithm": "fibonacci", "parameters": {"unit": 60}}],
        "policies": [
            {"name": "daily", "cron": "0 9 * * *", "zone": "Europe/Berlin", "repository": "office",
             "retry_policy": "patient", "window": [{"days": "mon-sun", "start": "00:00", "end": "00:00"}]},
            {"name": "weekly", "cron": "0 20 * * 6", "repository": "office"},
        ],
        "sources": [
            {"name": "folder", "kind": "local", "path": "/srv/files", "policies": ["daily"]},
            {"name": "laptop", "kind": "sftp", "address": "laptop.example", "path": "/home",
             "options": {"user": "backup"}, "secret": "env:BACKUP_SECRET_LAPTOP", "host_key": HOST_KEY,
             "policies": ["daily", "weekly"]},
        ],
    }  # fmt: skip


def errors_of(data: object, folder: Path) -> list[str]:
    with pytest.raises(FleetError) as caught:
        apply_fleet(data, "office.json", folder=folder)
    return caught.value.errors


@pytest.fixture(autouse=True)
def no_presets() -> None:
    """Delete the presets, so that rows count from zero."""
    RetryPolicy.objects.all().delete()


def counts(report: FleetReport, action: str) -> dict[str, int]:
    return dict(Counter(each.section for each in report.changes if each.action == action))


def rows_in_the_database() -> int:
    tables = (Repository, RetryPolicy, Schedule, Policy, Source, Assignment, BacklogRecord)
    return sum(table.objects.count() for table in tables)  # type: ignore[attr-defined]


def test_a_fleet_is_imported_and_due_at_once_and_a_second_time_nothing_changes(tmp_path: Path) -> None:
    report = apply_fleet(small_fleet(tmp_path), "office.json", folder=tmp_path)
    assert counts(report, "create") == {"repositories": 1, "retry_policies": 1, "policies": 2, "sources": 2}
    assert report.emitted == 3 == BacklogRecord.objects.unfinished().count()
    schedule = Policy.objects.get(schedule__name="daily").schedule
    assert (schedule.kind, schedule.provider, schedule.zone) == ("backup", "assignments", "Europe/Berlin")
    assert schedule.retry_policy is not None
    assert schedule.retry_policy.name == "patient"
    assert (tmp_path / "repository").is_dir()
    before = rows_in_the_database()
    report = apply_fleet(small_fleet(tmp_path), "office.json", folder=tmp_path)
    assert report.changes == []
    assert report.unchanged == {"repositories": 1, "retry_policies": 1, "policies": 2, "sources": 2}
    assert report.emitted == 0
    assert rows_in_the_database() == before


def test_only_what_the_file_changes_is_changed_and_the_rest_keeps_its_values(tmp_path: Path) -> None:
    apply_fleet(small_fleet(tmp_path), "office.json", folder=tmp_path)
    Policy.objects.filter(schedule__name="daily").update(keep={"last": 99})
    woken = timezone.now()
    Source.objects.filter(name="laptop").update(last_woken_at=woken)
    fleet = small_fleet(tmp_path)
    fleet["policies"][0] |= {"zone": "UTC", "cron": "*/5 * * * *"}
    fleet["sources"][1]["path"] = "/home/anna"
    del fleet["sources"][1]["policies"], fleet["sources"][0]
    fleet["sources"].append({"name": "another", "kind": "local", "path": "/srv", "policies": []})
    far = timezone.now() + timedelta(days=400)
    Assignment.objects.update(last_backup_at=timezone.now(), next_backup_at=far)
    report = apply_fleet(fleet, "office.json", folder=tmp_path)
    assert [(each.action, each.name, each.fields) for each in report.changes] == [
        ("change", "daily", {"cron": ("0 9 * * *", "*/5 * * * *"), "zone": ("Europe/Berlin", "UTC")}),
        ("change", "laptop", {"path": ("/home", "/home/anna")}),
        ("create", "another", {}),
    ]
    daily = Policy.objects.get(schedule__name="daily")
    assert (daily.schedule.zone, daily.keep) == ("UTC", {"last": 99})
    laptop = Source.objects.get(name="laptop")
    assert (laptop.path, laptop.last_woken_at) == ("/home/anna", woken)
    assert Assignment.objects.count() == 3, "those of sources that are not named, or without their policies, stay"
    for assignment in Assignment.objects.select_related("policy__schedule"):
        moved = assignment.next_backup_at != far
        assert moved == (assignment.policy.schedule.name == "daily")


def test_an_assignment_that_the_file_takes_away_goes_only_without_backups(tmp_path: Path) -> None:
    apply_fleet(small_fleet(tmp_path), "office.json", folder=tmp_path)
    fleet = small_fleet(tmp_path)
    fleet["sources"][1]["policies"] = ["daily"]
    [change] = apply_fleet(fleet, "office.json", folder=tmp_path).changes
    assert change.fields == {"policies": (["daily", "weekly"], ["daily"])}
    kept = Assignment.objects.get(source__name="laptop")
    now = timezone.now()
    facts = {"assignment": kept, "repository": kept.policy.repository}
    of_one = {"record_id": 1, "attempt": 1, "engine": "rclone", "size": 1, "read": 1, "files": 1, "snapshot": "/x"}
    backup = Backup(**facts, **of_one, started_at=now, ended_at=now)
    fleet["sources"][1]["policies"] = []
    for point in (backup, Copy(**facts, planned_at=now, points=["x"])):
        point.save()
        [error] = errors_of(fleet, tmp_path)
        assert error.startswith(
            "office.json: sources[1] (laptop): policies: 'daily' is taken away, but there are backups"
        )
        point.delete()
    assert Assignment.objects.filter(pk=kept.pk).exists()


def test_every_error_of_a_file_is_told_with_its_row_and_field(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    fleet = small_fleet(tmp_path)
    fleet["extra"] = []
    fleet["repositories"].append({"name": "file", "location": "file"})
    fleet["retry_policies"].append({"name": "odd", "algorithm": "magic"})
    fleet["policies"][0] |= {"cron": "61 * * * *", "zone": "Europe/Berln", "engine_options": {"transfer": 4}}
    fleet["policies"][1] |= {"repository": "attic", "retry_policy": "none such", "keep": {"last": True}}
    fleet["sources"][0] |= {"path": "srv", "colour": "blue", "policies": ["daily", "hourly"]}
    fleet["sources"][1] |= {"port": "22", "address": "-oProxyCommand=x", "host_key": "", "secret": "hunter2"}
    fleet["sources"] += [
        {"name": "folder", "kind": "local"},
        {"name": "ftp", "kind": "ftp"},
        {"kind": "local", "path": "/srv"},
        7,
    ]
    beginnings = [
        "extra: unknown section",
        "repositories[1] (file): location: ",
        "retry_policies[1] (odd): algorithm: unknown algorithm 'magic'",
        "policies[0] (daily): cron: ",
        "policies[0] (daily): zone: unknown time zone 'Europe/Berln'",
        "policies[0] (daily): engine_options: unknown option 'transfer'",
        "policies[1] (weekly): repository: there is no repository 'attic'",
        "policies[1] (weekly): retry_policy: there is no retry policy 'none such'",
        "policies[1] (weekly): keep: last is True and must be a whole number",
        "sources[0] (folder): path: 'srv' is not an absolute path",
        "sources[0] (folder): colour: is unknown here",
        "sources[0] (folder): policies: there is no policy 'hourly'",
        "sources[1] (laptop): port: must be a whole number",
        "sources[1] (laptop): address: '-oProxyCommand=x' begins with '-'",
        "sources[1] (laptop): host_key: is missing",
        "sources[1] (laptop): secret: must say where the password is found",
        "sources[2] (folder): name: is in the file twice, first in sources[0]",
        "sources[3] (ftp): kind: must be 'sftp', ",
        "sources[4]: name: is missing",
        "sources[5]: is not an object",
    ]
    lines = [line.removeprefix("office.json: ") for line in errors_of(fleet, tmp_path)]
    assert [start for start in beginnings if not any(line.startswith(start) for line in lines)] == []
    assert len(lines) == len(beginnings), lines
    assert not any("hunter2" in line for line in lines)
    assert rows_in_the_database() == 0


def test_a_paused_source_is_imported_but_not_put_on_the_backlog(tmp_path: Path) -> None:
    fleet = small_fleet(tmp_path)
    memberships = [source.pop("policies") for source in fleet["sources"]]
    apply_fleet(fleet, "office.json", folder=tmp_path)
    Source.objects.update(paused_at=timezone.now())
    for source, policies in zip(fleet["sources"], memberships, strict=True):
        source["policies"] = policies
    assert apply_fleet(fleet, "office.json", folder=tmp_path).emitted == 0


def test_seven_hundred_laptops_take_few_statements(
    tmp_path: Path, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    fleet = json.loads((FIXTURES / "laptops-700.json").read_text())
    fleet["repositories"][0]["location"] = "repository"
    with django_assert_max_num_queries(40):
        report = apply_fleet(fleet, "laptops-700.json", folder=tmp_path)
    assert (report.count("create", "sources"), report.emitted) == (700, 700)
    assert Repository.objects.get().location == str(tmp_path / "repository")
    for source in fleet["sources"]:
        source["wake_allowed"] = True
    with django_assert_max_num_queries(30):
        assert apply_fleet(fleet, "laptops-700.json", folder=tmp_path).count("change", "sources") == 700
    assert BacklogRecord.objects.filter(status__in=[Status.READY, Status.WAITING]).count() == 700


def test_thirty_schedules_that_are_as_the_file_says_take_few_statements(
    tmp_path: Path, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    endpoint = {"name": "shop", "url": "https://shop.example.com/hook"}
    named = [{"name": f"events {number}", "endpoint": "shop", "cron": "0 3 * * *"} for number in range(30)]
    fleet = {"endpoints": [endpoint], "schedules": [each | {"event_count": 1} for each in named]}
    apply_fleet(fleet, "shop.json", folder=tmp_path)
    with django_assert_max_num_queries(20):
        assert apply_fleet(fleet, "shop.json", folder=tmp_path).unchanged["schedules"] == 30


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_a_file_means_the_same_however_many_of_its_rows_are_taken_at_once(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fleet(*rows: tuple[str, str | None]) -> dict[str, Any]:
        alike = {"kind": "local", "path": "/srv/x"}
        return {"sources": [{"name": name, "renamed_from": old} | alike for name, old in rows]}

    monkeypatch.setattr(apply, "AT_ONCE", at_once)
    rounds: list[int] = []
    report = apply_fleet(
        fleet(("anna", None), ("bert", "anna"), ("cleo", "dora")),
        "office.json", folder=tmp_path, on_progress=lambda section, done, total: rounds.append(done),
    )  # fmt: skip
    assert rounds == {1: [1, 2, 3], 2: [2, 3], 1000: []}[at_once]
    assert report.count("create", "sources") == 3  # of no row is it known that it was anna, or dora
    assert [line.partition(" the same place")[0] for line in report.warnings] == [
        "source anna: sources bert, cleo have", "source bert: sources anna, cleo have",
        "source cleo: sources anna, bert have",
    ]  # fmt: skip
    other = "renamed_from: another row has 'anna' as its name or renamed_from: only one row may have it"
    assert errors_of(fleet(("dora", "anna"), ("eva", "anna"), ("bert", None), ("dora", None)), tmp_path) == [
        f"office.json: sources[1] (eva): {other}",
        "office.json: sources[3] (dora): name: is in the file twice, first in sources[0]",
    ]
    assert apply_fleet(fleet(("dora", "anna"), ("eva", "dora")), "office.json", folder=tmp_path).count("create") == 1
    assert set(Source.objects.values_list("name", flat=True)) == {"dora", "bert", "cleo", "eva"}


run, _ = command("apply")


def written(folder: Path, content: str) -> str:
    path = folder / "office.json"
    path.write_text(content)
    return str(path)


def test_the_command_says_what_it_did_and_that_a_second_time_nothing_changed(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(small_fleet(tmp_path)))
    assert "put on the backlog: 3 backups" in run(path)
    assert "nothing changed" in run(path)
    assert json.loads(run(path, "--json"))["unchanged"]["sources"] == 2


def test_a_dry_run_keeps_nothing_makes_no_directory_and_shows_no_key_that_is_thrown_away(tmp_path: Path) -> None:
    fleet = small_fleet(tmp_path)
    fleet["repositories"][0]["encrypted"] = True
    path = written(tmp_path, json.dumps(fleet))
    shown = run(path, "--dry-run")
    assert "dry run: nothing was kept" in shown
    assert "key" not in shown
    assert rows_in_the_database() == 0
    assert not (tmp_path / "repository").exists()


def test_the_office_of_the_fixtures_can_be_imported(tmp_path: Path) -> None:
    content = (FIXTURES / "office.json").read_text().replace("../var/office-repository", "repository")
    run(written(tmp_path, content))
    assert Source.objects.values("kind").distinct().count() >= 4


@pytest.mark.django_db(transaction=True)
def test_two_imports_of_one_file_at_once_make_every_row_once(tmp_path: Path) -> None:
    def imported() -> FleetReport:
        return apply_fleet(small_fleet(tmp_path), "office.json", folder=tmp_path)

    reports = at_once(imported, imported)
    assert sorted(report.count("create", "sources") for report in reports) == [0, 2]
    assert Assignment.objects.count() == 3 == BacklogRecord.objects.count()


def test_a_seeding_limit_that_changes_is_that_of_its_throttle(tmp_path: Path) -> None:
    for limit in (4, 2):
        fleet = small_fleet(tmp_path)
        fleet["policies"][0] |= {"seeding_limit": limit}
        apply_fleet(fleet, "office.json", folder=tmp_path)
        throttle = Policy.objects.get(schedule__name="daily").seeding_throttle
        assert throttle is not None
        assert throttle.max_in_flight == limit
