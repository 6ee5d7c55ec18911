"""Changes that a migration may make to tables that a release uses."""

from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres import operations as postgres
from django.db import IntegrityError, OperationalError, connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.test.utils import CaptureQueriesContext

from jobs import online
from jobs.models import Throttle
from jobs.online import BuildIndex, UpdateInBatches
from proving.upgrades import releases
from proving.upgrades.large import LARGE
from proving.upgrades.lint import problems_since
from proving.upgrades.releases import Allowance, Release
from proving.upgrades.rules import MigrationLook
from tests.upgrades.candidates import NEWER

RELEASED = frozenset({("jobs", "0006_pauses_have_an_end_everywhere")})
STATE = MigrationLoader(None).project_state()

ADD, ALTER, REMOVE, INDEX = migrations.AddField, migrations.AlterField, migrations.RemoveField, models.Index
POSITIVE = models.Q(worker__gt=0)
STATE_ONLY = migrations.SeparateDatabaseAndState


def checked(name: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=models.Q(**{f"{name}__gt": 0}), name="it_is_positive")


CASES: list[tuple[Any, list[str]]] = [
    (REMOVE("throttle", "name"), ["removed"]),
    (migrations.RenameField("throttle", "name", "title"), ["removed"]),
    (migrations.RenameModel("Throttle", "Cap"), ["removed"]),
    (migrations.DeleteModel("Throttle"), ["removed"]),
    (STATE_ONLY(state_operations=[migrations.DeleteModel("Throttle")]), []),
    (STATE_ONLY(state_operations=[REMOVE("throttle", "name")]), ["empty"]),
    (STATE_ONLY(state_operations=[REMOVE("throttle", "paused_why")]), []),
    (ADD("throttle", "more", models.IntegerField(default=0)), ["empty"]),
    (ADD("throttle", "more", models.IntegerField(db_default=0)), []),
    (ADD("throttle", "more", models.IntegerField(null=True)), []),
    (ADD("throttle", "more", models.IntegerField(null=True, db_index=True)), []),
    (ADD("backlogrecord", "more", models.IntegerField(null=True, db_index=True)), ["locked"]),
    (ADD("backlogrecord", "hold", models.ForeignKey("jobs.hold", models.SET_NULL, null=True)), ["locked", "locked"]),
    (ALTER("throttle", "paused_until", models.DateTimeField()), ["empty"]),
    (ALTER("throttle", "name", models.TextField()), ["altered"]),
    (ALTER("throttle", "paused_why", models.CharField(max_length=20, db_default="")), ["altered"]),
    (ALTER("throttle", "paused_why", models.CharField(max_length=300, db_default="")), []),
    (ALTER("backlogrecord", "kind", models.CharField(max_length=100, db_index=True)), ["locked"]),
    (migrations.AddIndex("backlogrecord", INDEX(fields=["kind"], name="by_kind")), ["locked"]),
    (migrations.AddIndex("throttle", INDEX(fields=["name"], name="by_name")), []),
    (BuildIndex("backlogrecord", INDEX(fields=["kind"], name="by_kind")), []),
    (migrations.RemoveIndex("backlogrecord", "backlog_cancelled"), ["removed"]),
    (migrations.AddConstraint("throttle", checked("in_flight")), ["refused"]),
    (migrations.AddConstraint("backlogrecord", checked("worker")), ["refused", "locked"]),
    (postgres.AddConstraintNotValid("backlogrecord", checked("worker")), ["refused"]),
    (postgres.ValidateConstraint("backlogrecord", "it_is_positive"), []),
    (migrations.RunSQL("ALTER TABLE jobs_throttle DROP COLUMN name"), ["removed"]),
    (migrations.RunSQL("ALTER TABLE jobs_throttle ALTER COLUMN name TYPE text"), ["altered"]),
    (migrations.RunSQL("CREATE OR REPLACE FUNCTION claim() RETURNS int LANGUAGE sql AS 'SELECT 1'"), ["function"]),
    (migrations.RunSQL("CREATE INDEX ON jobs_attempt (worker_id)"), ["locked"]),
    (migrations.RunSQL("CREATE INDEX CONCURRENTLY ON jobs_attempt (worker_id)"), []),
    (migrations.RunSQL("UPDATE jobs_attempt SET error = ''"), ["batches"]),
    (migrations.RunSQL("UPDATE jobs_throttle SET paused_why = ''"), []),
    (UpdateInBatches("jobs_attempt", "error = ''", "error = 'none'"), []),
    (migrations.RunPython(migrations.RunPython.noop), ["batches"]),
    (postgres.HStoreExtension(), ["unknown"]),
]


def rules_of(*operations: Any, after: tuple[str, str] | None = None, atomic: bool = True) -> list[str]:
    migration = migrations.Migration("0999_next", "jobs")
    migration.operations, migration.atomic = list(operations), atomic
    if after:
        migration.contracts_after = after  # type: ignore[attr-defined]
    return [each.rule for each in MigrationLook(RELEASED).problems(migration, STATE)]


@pytest.mark.parametrize(("operation", "rules"), CASES)
def test_each_operation_by_its_rules(operation, rules):
    assert rules_of(operation) == rules


def test_what_the_release_does_not_know_is_free():
    made = migrations.CreateModel("Tag", [("id", models.BigAutoField(primary_key=True))])
    assert (
        rules_of(made, ADD("tag", "name", models.TextField()), REMOVE("tag", "name"), migrations.DeleteModel("Tag"))
        == []
    )
    added = ADD("throttle", "more", models.IntegerField(null=True))
    assert rules_of(added, migrations.AddConstraint("throttle", checked("more")), REMOVE("throttle", "more")) == []


def test_only_what_the_release_does_not_use_is_removed():
    dropped = migrations.RunSQL("ALTER TABLE jobs_throttle DROP COLUMN name")
    assert rules_of(dropped, after=("jobs", "0006_pauses_have_an_end_everywhere")) == []
    assert rules_of(dropped, after=("jobs", "0998_later")) == ["removed", "removed"]
    index = BuildIndex("backlogrecord", INDEX(fields=["kind"], name="by_kind"))
    assert rules_of(index, index, atomic=False) == ["several"]


def test_the_migrations_since_a_candidate_are_looked_at_and_what_is_allowed_has_to_be_a_problem():
    index = "sources.0023_whose_status_is_not_protected"
    assert {(each.migration, each.rule) for each in problems_since(NEWER)} >= {(index, "locked")}
    allowed = [
        Allowance(index, "locked", "before the first release"),
        Allowance("jobs.0001_queue", "removed", "why not"),
    ]
    found = [str(each) for each in problems_since(NEWER, allowed) if "releases.toml" in str(each) or index in str(each)]
    assert found == ["jobs.0001_queue: removed: releases.toml allows it, but it is not a problem"]
    with pytest.raises(ValueError, match=r"has the migration jobs\.0001_gone, which is not there any more"):
        problems_since(Release("0.1.0", "c", Path(), {"jobs": "0001_gone"}))


def test_the_migrations_since_the_newest_release_keep_to_the_rules():
    found = releases.read()
    assert not (found.newest and problems_since(found.newest, found.allowed))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[release]]\nversion = "0.1.0"', "commit"),
        ('[[allowed]]\nmigration = "a.b"\nrule = "locked"\nbecause = " "', "say why this is allowed: a.b"),
        ('[[allowed]]\nmigration = "a.b"\nwhy = "so"', "why"),
    ],
)
def test_a_wrong_file_is_refused(text, message, tmp_path):
    file = tmp_path / "releases.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        releases.read(file)


def test_large_tables_are_tables():
    assert {model._meta.db_table for model in apps.get_models()} >= LARGE


@pytest.fixture
def five_throttles(transactional_db: None) -> None:
    for number in range(5):
        Throttle.objects.create(name=f"five {number}", max_in_flight=3, paused_why="old")


def forwards(operation: Any) -> None:
    with connection.schema_editor(atomic=False) as editor:
        operation.database_forwards("jobs", editor, STATE, STATE)


def test_an_index_is_built_again_where_a_build_stopped(five_throttles):
    name = "throttles_by_why"
    with connection.cursor() as cursor, pytest.raises(IntegrityError):
        cursor.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON jobs_throttle (paused_why)")
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '3s'")
        try:
            forwards(BuildIndex("throttle", INDEX(fields=["paused_why"], name=name)))
            cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name])
            assert cursor.fetchone() == (True,)
            cursor.execute("SHOW lock_timeout")
            assert cursor.fetchone() == ("3s",)
        finally:
            cursor.execute(f"DROP INDEX IF EXISTS {name}")
            cursor.execute("RESET lock_timeout")


def test_the_building_of_an_index_sets_nothing_for_a_session_that_a_pooler_shares(five_throttles, settings):
    settings.JOBS = {**settings.JOBS, "WAKE": "poll"}
    try:
        with CaptureQueriesContext(connection) as asked:
            forwards(BuildIndex("throttle", INDEX(fields=["paused_why"], name="throttles_by_why")))
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX throttles_by_why")
    said = [each["sql"] for each in asked if "lock_timeout" in each["sql"] or each["sql"].startswith("CREATE INDEX")]
    assert len(said) == 1, said


def test_rows_are_changed_some_at_a_time_and_the_rest_when_it_is_run_again(five_throttles, monkeypatch):
    monkeypatch.setattr(online, "BATCH_ROWS", 2)
    change = UpdateInBatches("jobs_throttle", "paused_why = 'new'", "paused_why = 'old'")
    done: list[int] = []

    def stop_after_two(execute: Any, sql: str, *arguments: Any) -> Any:
        if "SET paused_why" in sql:
            done.append(Throttle.objects.filter(paused_why="new").count())
            if len(done) == 3:
                raise OperationalError("killed")
        return execute(sql, *arguments)

    with connection.execute_wrapper(stop_after_two), pytest.raises(OperationalError):
        forwards(change)
    assert done == [0, 2, 4]
    forwards(change)
    assert not Throttle.objects.exclude(paused_why="new").exists()
