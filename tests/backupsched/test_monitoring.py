"""Requests of machines to a web process."""

import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client import generate_latest

from backupsched import monitoring
from dashboard import metrics, source_metrics
from fleet.status import of_all, with_status
from jobs import backlog
from jobs.clock import database_clock
from jobs.states import AttemptOutcome, Status
from operations.models import AttemptTotal
from sources.models import Assignment, Repository, Source
from tests.backupsched.scraping import read, token_for
from tests.factories import NOON, make_record, make_throttle, make_worker
from tests.sources.factories import make_assignment, make_source
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.django_db(transaction=True)

ANOTHER_HOST = {"HTTP_HOST": "10.0.0.7:8000"}


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    for name in ("TOTALS", "BY_SOURCE", "READINESS"):
        kept = getattr(monitoring, name)
        monkeypatch.setattr(monitoring, name, monitoring.LatestResult(kept._compute, kept._fresh, PATIENCE))
    monkeypatch.setattr(monitoring, "STEADIED", monitoring.SteadyProbe(lambda: monitoring.READINESS.get(), 0))


def test_metrics_are_for_tokens_that_may_look_at_sources_and_for_named_networks(settings):
    settings.SECURE_SSL_REDIRECT = True  # nothing of Django's own comes between
    client = Client(**ANOTHER_HOST)
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", HTTP_AUTHORIZATION="Bearer bst_wrong").status_code == 401
    assert client.get("/metrics", **token_for()).status_code == 403
    assert client.get("/metrics", **token_for("view_source", scopes=("write",))).status_code == 403
    answer = client.get("/metrics", **token_for("view_source"))
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert client.post("/metrics").status_code == 405
    settings.METRICS_NETWORKS = [monitoring.ipaddress.ip_network("127.0.0.0/8")]
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="10.0.0.8").status_code == 401


def test_they_say_what_there_is():
    assignment = make_assignment(source=make_source(name="laptop"), last_backup_at=NOON, proved_at=NOON, failures=2)
    make_source(name="in-no-policy")
    worker = make_worker(queues={"backups": 16})
    for status in (Status.READY, Status.WAITING, Status.RUNNING, Status.FAILED):
        make_record(status, queue="backups", worker=worker if status is Status.RUNNING else None)
    make_throttle(3)
    Repository.objects.update(room_free=2, room_total=10)
    backlog.hold("maintenance", by="anna")
    for up_to, number in ((10.0, 3), (600.0, 2)):
        facts = {"kind": "backup", "queue": "backups", "outcome": AttemptOutcome.SUCCEEDED, "up_to": up_to}
        for sort in ("sftp", "s3"):  # of one engine
            AttemptTotal.objects.create(**facts, sort=sort, number=number, seconds=number * up_to)
    found = read(metrics.exposition())
    expected = {
        ("sources", "failing"): 1, ("sources", "unprotected"): 1, ("sources", "protected"): 0,
        ("sources_in_need",): 2, ("dead_letters",): 1, ("hold",): 1,
        ("records", "backups", "waiting"): 1, ("records", "backups", "ready"): 1, ("records", "backups", "running"): 1,
        ("execution_units",): 16, ("execution_units_in_use",): 1, ("workers", "alive"): 1, ("workers", "silent"): 0,
        ("repository_last_backup_timestamp_seconds", str(assignment.policy.repository)): NOON.timestamp(),
        ("repository_free_bytes", str(assignment.policy.repository)): 2, ("alerts", "watchdog"): 0,
        ("repository_last_proof_timestamp_seconds", str(assignment.policy.repository)): NOON.timestamp(),
        ("attempt_seconds_bucket", "1.0", "backup", "backups", "rclone", "succeeded"): 0,
        ("attempt_seconds_bucket", "10.0", "backup", "backups", "rclone", "succeeded"): 6,
        ("attempt_seconds_bucket", "+Inf", "backup", "backups", "rclone", "succeeded"): 10,
        ("attempt_seconds_count", "backup", "backups", "rclone", "succeeded"): 10,
        ("attempt_seconds_sum", "backup", "backups", "rclone", "succeeded"): 2 * (30 + 1200),
    }  # fmt: skip
    assert {key: found.get(key) for key in expected} == expected
    assert not [key for key in found if "laptop" in key]
    asked = read(metrics.exposition(by_source=True))
    assert asked["source_status", "failing", "laptop"] == 1
    assert asked["source_last_backup_timestamp_seconds", "laptop", str(assignment.policy)] == NOON.timestamp()


def test_each_source_is_written_as_the_library_writes_it_by_two_statements():
    make_assignment(source=make_source(name='lap"top\\ of\nAnna'), last_backup_at=NOON, failures=1)
    make_assignment(source=make_source(name="b", paused_at=NOON), next_backup_at=NOON + timedelta(milliseconds=125))
    make_assignment(source=make_source(name="c", retired_at=NOON), last_backup_at=NOON)
    for number, at in enumerate((0, 1, 999_999, 1e6, 1_764_363_600, 1_764_363_600.123456, 33e9 + 0.5, -5)):
        make_assignment(source=make_source(name=f"at {number}"), last_backup_at=datetime.fromtimestamp(at, UTC))
    ranked = with_status(Source.objects.filter(retired_at=None).order_by("name"), database_clock())
    dates = Assignment.objects.filter(source__retired_at=None).order_by("pk")

    def dated(field: str) -> list[tuple[str, str, float]]:
        rows = dates.exclude(**{field: None}).values_list("source__name", "policy__schedule__name", field)
        return [(source, policy, at.timestamp()) for source, policy, at in rows]

    families = [
        ("source_status", "1 for the status of a source.", ("source", "status"),
         [(each.name, each.status, 1) for each in ranked]),
        ("source_last_backup_timestamp_seconds", "Start of its last backup.", ("source", "policy"),
         dated("last_backup_at")),
        ("source_next_backup_timestamp_seconds", "When its next backup is due.", ("source", "policy"),
         dated("next_backup_at")),
    ]  # fmt: skip
    library = generate_latest(SimpleNamespace(collect=lambda: [metrics._gauge(*each) for each in families]))
    with CaptureQueriesContext(connection) as asked:
        found, by_status = source_metrics.of_each(database_clock())
    assert sorted(found.splitlines()) == sorted(library.decode().splitlines())
    assert [line for line in found.splitlines() if line.startswith("# TYPE")] == [
        line for line in library.decode().splitlines() if line.startswith("# TYPE")
    ]
    assert len([each for each in asked if "sources_" in each["sql"]]) == 2
    assert by_status == of_all.look(database_clock())[0]


@pytest.mark.parametrize("by_source", [False, True])
def test_the_status_of_all_sources_is_looked_at_once(by_source):
    with CaptureQueriesContext(connection) as asked:
        metrics.exposition(by_source=by_source)
    assert sum("min(each.place)" in each["sql"] for each in asked) == 1


def test_however_many_ask_the_database_is_asked_once():
    begun, go_on, asked = threading.Event(), threading.Event(), []

    def compute() -> bytes:
        asked.append(1)
        begun.set()
        assert go_on.wait(PATIENCE)
        return b"x"

    kept = monitoring.LatestResult(compute, fresh=2 * PATIENCE, patience=PATIENCE)
    threads = [threading.Thread(target=kept.get) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE)
    impatient = monitoring.LatestResult(compute, fresh=0, patience=0.01)
    with pytest.raises(TimeoutError):
        impatient.get()
    eventually(lambda: len(asked) == 2)
    with pytest.raises(TimeoutError):  # nor does a second one begin beside the first
        impatient.get()
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert (kept.get(), len(asked)) == (b"x", 2)


def test_it_is_alive_without_a_database_and_ready_with_a_migrated_one(monkeypatch):
    client = Client(**ANOTHER_HOST)
    assert (client.get("/readyz").status_code, client.get("/readyz").content) == (200, b"ready\n")
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'jobs' AND name LIKE '0002%%' RETURNING app, name")
        row = cursor.fetchone()
        try:
            monkeypatch.setattr(monitoring, "READINESS", monitoring.LatestResult(monitoring._readiness, 0, PATIENCE))
            answer = client.get("/readyz")
        finally:
            cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, now())", row)
    assert (answer.status_code, answer.content) == (
        503, b"the database lacks 1 migration: jobs 0002_functions_and_presets\n",
    )  # fmt: skip

    def refuse() -> bytes:
        raise OperationalError('connection failed: password authentication failed for user "secret-name"')

    monkeypatch.setattr(monitoring, "READINESS", monitoring.LatestResult(refuse, 0, PATIENCE))
    answer = client.get("/readyz")
    assert (answer.status_code, answer.content) == (503, b"the database does not answer\n")
    connection.close()
    assert {client.get(path).content for path in ("/livez", "/healthz")} == {b"ok\n"}
    assert connection.connection is None
    assert client.head("/healthz").status_code == 200


def test_a_short_outage_leaves_it_ready_and_one_that_comes_and_goes_keeps_it_away(monkeypatch):
    now, database = [0.0], iter(())
    seen: list[str] = []

    def ask() -> bytes:
        if (answer := next(database)) == "away":
            raise OperationalError("connection failed")
        if answer == "old":
            raise monitoring.NotReady("the database lacks 1 migration")
        return b"ready\n"

    monkeypatch.setattr(monitoring, "STEADIED", monitoring.SteadyProbe(ask, 15, lambda: now[0]))
    client = Client(**ANOTHER_HOST)

    def asked(every: int, *answers: str) -> str:
        nonlocal database
        database, seen[:] = iter(answers), []
        for _ in answers:
            seen.append("+" if client.get("/readyz").status_code == 200 else "-")
            now[0] += every
        return "".join(seen)

    away, ready, old = "away", "ready", "old"
    assert asked(5, away, ready) == "--"  # it was never ready: an answer of a moment is none
    assert asked(5, ready, away, away, ready) == "++++"
    assert asked(5, away, away, away, away, ready, away, ready, ready) == "++-----+"
    assert asked(5, old, ready) == "-+"
    assert asked(5, old, away, away, ready, ready) == "----+", "what was ready before the fact covers no outage"
    assert asked(60, ready, away, away, ready, ready) == "+---+", "not ready for one interval longer"
