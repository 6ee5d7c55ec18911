"""Everything that shows a fleet: each list of the admin and of the API, including lists that are added later; other
pages; common filters and searches; and the commands.

A page is opened by Django's test client, through all middleware, as a superuser, and a command as a separate process.
Both find compiled modules, and collect garbage as rarely as in an installation.
"""

import gc
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import reverse

from api.root import api
from backupsched import monitoring
from backupsched.command_line import COLLECT_AFTER
from jobs.clock import database_clock
from jobs.models import BacklogRecord, Worker
from jobs.states import Status
from proving.bench.fleets.aged import ERRORS, UNITS
from proving.bench.fleets.statements import timed
from schedules.models import Schedule
from sources.models import Policy, Source

LONGEST_COMMAND = 240.0
FIRST = "home, as the first page of its process"
NO_ANSWER = b"Not computed"
COMMANDS = {
    "status": ["status"], "sources": ["sources"], "sources --json": ["sources", "--json"], "backlog": ["backlog"],
    "backlog errors": ["backlog", "errors"], "doctor": ["doctor"], "schedules": ["schedules"],
    "sources export": ["sources", "export"], "sources export --json": ["sources", "export", "--json"],
    "apply --dry-run": ["apply", "--dry-run", "{fleet}"], "one window changed": ["apply", "--dry-run", "{changed}"],
}  # fmt: skip


def pages() -> dict[str, str]:
    """The name of each page → its address."""
    found = {name: reverse(name) for name in ("home", "home-facts", "matrix")}
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        found[f"list of {model._meta.verbose_name_plural}"] = reverse(f"admin:{name}_changelist")
    found |= dict(asked())
    found |= {f"API {path.removeprefix('/api')}": path for path in _lists_of_the_api()}
    return found | {"metrics": "/metrics", "metrics by source": "/metrics?sources=1"}


def asked() -> Iterator[tuple[str, str]]:
    """The names, the same for each fleet, and the addresses of filters, searches, facets and pages of one row."""
    policy, schedule, source = (
        model._default_manager.order_by("-pk").values_list("pk", flat=True)[0] for model in (Policy, Schedule, Source)
    )
    failed = BacklogRecord.objects.filter(status=Status.FAILED).order_by("pk").first()
    some = Source.objects.order_by("pk").values_list("name", flat=True)[Source.objects.count() // 2]
    error = f"{ERRORS[0]}"
    of_list: dict[str, tuple[dict[str, Any], ...]] = {
        "sources_source": (
            *({"status": status} for status in ("failing", "absent", "protected", "needs you")),
            {"q": some}, {"q": "example"}, {"error": error}, {"policy": policy}, {"kind__exact": "sftp"}, {"o": "-5"},
            {"p": 100}, {"_facets": "True"},
        ),
        "sources_backup": (
            {"q": some}, {"q": "nothing like it"}, {"p": 100}, {"_facets": "True"}, {"repository__id__exact": 1},
            {"o": "-5"}, {"engine": "none"}, {"policy": policy}, {"q": "source"},
        ),
        "sources_assignment": ({"status": "failing"}, {"status": "protected"}, {"q": some}, {"_facets": "True"}),
        "delivery_endpoint": ({"o": "6"},),
        "jobs_backlogrecord": (
            {"q": some}, {"q": "assignment:7"}, {"q": "nothing like it"}, {"answer": "5xx"}, {"answer": "2xx"},
            {"answer": "none"}, {"status": "failed"}, {"status": "succeeded"}, {"status": "waiting"},
            {"schedule": schedule}, {"events": "yes"}, {"kind": "backup"}, {"kind": "restore"}, {"o": "-3"},
            {"subject": "assignment:7"}, {"_facets": "True"}, {"p": 100},
        ),
        "schedules_trigger": ({"_facets": "True"},), "jobs_decision": ({"q": some}, {"_facets": "True"}),
        "schedules_schedule": ({"q": "schedule 1"}, {"_facets": "True"}),
    }  # fmt: skip
    chosen = {("q", some): "a name", ("policy", policy): "the last", ("schedule", schedule): "the last"}
    for name, queries in of_list.items():
        for each in queries:
            named = " ".join(f"{field}={chosen.get((field, value), value)}" for field, value in each.items())
            yield f"{name.partition('_')[2]}s ?{named}", f"{reverse(f'admin:{name}_changelist')}?{urlencode(each)}"
    yield "dead letters", reverse("admin:jobs_backlogrecord_dead_letters")
    yield "page of a source", reverse("admin:sources_source_change", args=[source])
    yield "page of a policy", reverse("admin:sources_policy_change", args=[policy])
    yield "page of a record", reverse("admin:jobs_backlogrecord_change", args=[failed.pk if failed else 1])
    yield "matrix of a policy", f"{reverse('matrix')}?policy={policy}"
    yield "matrix, failing", f"{reverse('matrix')}?status=failing"
    for query in ("status=failing", "status=absent", "ordering=-checked_in_at"):
        yield f"API /sources ?{query}", f"/api/sources?{query}"
    yield "API /sources ?policy=the last", f"/api/sources?policy={policy}"
    yield "what if, other units", f"{reverse('what-if')}?units={UNITS + 1}"
    by_end = ("kind=restore&ordering=-finished_at", "status=unfinished&ordering=finished_at")
    for query in ("answer=5xx", "answer=2xx", "answer=2xx&ordering=id", "error=reset", *by_end):
        yield f"API /records ?{query}", f"/api/records?{query}"
    yield "API /records ?status=failed&kind", "/api/records?status=failed&kind=backup&ordering=id"
    yield "API /backups ?source", f"/api/backups?source={source}"
    for ordering in ("id", "-ended_at", "size"):
        yield f"API /backups ?policy=none by {ordering}", f"/api/backups?policy={policy + 10**6}&ordering={ordering}"
    for status in ("failing", "waiting", "protected"):
        yield f"API /assignments ?status={status}", f"/api/assignments?status={status}&ordering=failures"


def _lists_of_the_api() -> list[str]:
    """Addresses that are read without naming a row."""
    paths = api.get_openapi_schema()["paths"]
    read = [path for path, operations in paths.items() if "get" in operations and "{" not in path]
    return [path for path in read if not path.startswith("/api/agent/")]


def open_pages(wanted: list[str], repeats: int) -> dict[str, Any]:
    """The name of each wanted page (all if none is named) → the costs of opening it `repeats` times."""
    user, _ = get_user_model().objects.get_or_create(username="bench", is_staff=True, is_superuser=True)
    client = Client(raise_request_exception=False, HTTP_HOST="localhost")
    client.force_login(user)
    connection.close()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    found = {name: address for name, address in pages().items() if is_wanted(name, wanted)}
    first = {FIRST: _opened(client, reverse("home"), 1)} if is_wanted(FIRST, wanted) else {}
    return first | {name: _opened(client, address, repeats) for name, address in found.items()}


def is_wanted(name: str, wanted: list[str]) -> bool:
    return not wanted or any(each in name for each in wanted)


def _opened(client: Client, address: str, repeats: int) -> dict[str, Any]:
    taken, wrong, length = [], "", 0
    with _rows_read() as rows, timed() as sent:
        before = processor_time()
        for _ in range(repeats):
            _forget_what_is_kept()
            if "what-if" in address:  # without units there is nothing to simulate
                Worker.objects.update(heartbeat_at=database_clock())
            began = time.perf_counter()
            answer = client.get(address)
            length = len(answer.getvalue())
            taken.append(time.perf_counter() - began)
            if answer.status_code >= 400 or NO_ANSWER in answer.getvalue():
                wrong = f"answered {answer.status_code}" if answer.status_code >= 400 else "computed nothing"
        spent = (processor_time() - before) / repeats
    slowest = max(sent, key=lambda each: each[1], default=("", 0.0))
    return {
        "taken": taken, "statements": len(sent) // repeats, "rows": rows[0] // repeats, "slowest": slowest,
        "wrong": wrong, "bytes": length,
        "processor": spent,
    }  # fmt: skip


def processor_time() -> float:
    """The processor seconds of this connection's server process, without those of parallel workers; 0 where it runs on
    another host or they are unknown."""
    connection.ensure_connection()
    found = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    return int(found.read_text().split()[0]) / 1e9 if found.exists() else 0.0


def _forget_what_is_kept() -> None:
    """Empty this process's caches, so that each opening begins without them."""
    cache.clear()
    for kept in (monitoring.TOTALS, monitoring.BY_SOURCE):
        kept.forget()
    gc.collect()


def run_command(name: str, directory: str) -> dict[str, Any]:
    """Run one of COMMANDS. Returns the time of its process, its peak memory and more."""
    fleet, output = Path(directory) / "fleet.json", Path(directory) / "output"
    changed = fleet.with_name("changed.json")
    arguments = [each.format(fleet=fleet, changed=changed) for each in COMMANDS[name]]
    kept = fleet if name == "sources export --json" else output
    if name == "one window changed":
        changed.write_text(fleet.read_text().replace('"start": "00:00"', '"start": "01:00"', 1))
    (Path(directory) / "counted").unlink(missing_ok=True)
    with _rows_read() as rows, kept.open("wb") as out, (Path(directory) / "errors").open("wb") as errors:
        compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        began = time.perf_counter()
        started = [sys.executable, "-m", "proving.bench.fleets.counting", str(Path(directory) / "counted"), *arguments]
        try:
            done = subprocess.run(
                started,
                env=compiled | {"BACKUP_SECRET_BENCH": "none"},
                stdout=out,
                stderr=errors,
                timeout=LONGEST_COMMAND,
                check=False,
            )
            wrong = "" if done.returncode in (0, 1) else f"ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            wrong = f"took over {LONGEST_COMMAND:g} s"
        taken = time.perf_counter() - began
    counted = Path(directory) / "counted"
    text = counted.read_text() if counted.exists() else "0\n0\n0\n"
    statements, most, seconds, slowest = text.split("\n", 3)
    return {
        "taken": [taken], "statements": int(statements), "rows": rows[0], "memory": int(most) / 1024, "wrong": wrong,
        "slowest": (slowest, float(seconds)), "bytes": kept.stat().st_size,
    }  # fmt: skip


def run_minute() -> dict[str, Any]:
    """Do each worker's round of the minute once."""
    from jobs.periodic import run_minutely

    with _rows_read() as rows, timed() as sent, redirect_stdout(io.StringIO()):
        began = time.perf_counter()
        run_minutely()
        taken = time.perf_counter() - began
    slowest = max(sent, key=lambda each: each[1], default=("", 0.0))
    return {"taken": [taken], "statements": len(sent), "rows": rows[0], "slowest": slowest, "wrong": "", "bytes": 0}


READ = "SELECT tup_returned FROM pg_stat_database WHERE datname = current_database()"
OTHERS = """
SELECT EXISTS (SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND backend_type <> 'autovacuum worker' AND pid <> pg_backend_pid())
"""
OTHERS_END_WITHIN = 5.0


@contextmanager
def _rows_read() -> Iterator[list[int]]:
    """Yields a list that contains, at the end, the number of table rows and index entries read in the meantime."""
    before, found = _read(), [0]
    yield found
    found[0] = max(0, _read() - before)


def _read() -> int:
    """The rows read by all sessions so far. Waits for other sessions, which report theirs when they end."""
    until = time.monotonic() + OTHERS_END_WITHIN
    with connection.cursor() as cursor:
        cursor.execute(OTHERS)
        while cursor.fetchone()[0] and time.monotonic() < until:
            time.sleep(0.01)
            cursor.execute(OTHERS)
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(READ)
        return int(cursor.fetchone()[0])
