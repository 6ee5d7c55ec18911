"""An export equals its import: a fleet of every resource, through JSON and YAML, into an empty database."""

from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.files import formats
from fleet.files.apply import apply_fleet
from fleet.files.schema import SECTIONS, Fleet, export_fleet
from jobs.models import RetryPolicy
from tests.sources.factories import HOST_KEY

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
"""Printable, and without spaces around: as `no`, `1e3`, `~` or `12-25`, which YAML could take for something else."""

TRICKY = st.sampled_from(
    ["no", "~", "1e3", "0x1f", "12-25", "null", "a: b", "- x", "#", "é\u3042\U0001f600", "$number"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TRICKY, lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(TRICKY, inner, max_size=3), max_leaves=6,
).filter(lambda value: value is not None)  # fmt: skip
SECONDS = st.integers(1, 10**6) | st.sampled_from([0.5, 90.25])
WHEN = st.sampled_from([("0 9 * * 1-5", "Europe/Berlin"), ("*/5 * * * *", "UTC"), ("0 3 1 * *", "Asia/Tokyo")])


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


@st.composite
def fleets(draw: st.DrawFn) -> dict[str, Any]:
    """A file with rows in every section."""
    folder = f"/srv/fleet-{draw(st.integers(1, 99))}"

    def named(least: int = 1) -> list[str]:
        return draw(st.lists(NAMES | TRICKY, min_size=least, max_size=3, unique=True))

    def rows(names: list[str], **fields: st.SearchStrategy[Any]) -> list[dict[str, Any]]:
        return [{"name": name} | {key: draw(value) for key, value in fields.items()} for name in names]

    repositories, retries, throttles, endpoints = named(), named(), named(), named()
    schedules, policies = named(), named()
    policies = [name for name in policies if name not in schedules] or [f"{''.join(schedules)}p"]
    cron, zone = draw(WHEN)
    throttle, retry = st.sampled_from([None, *throttles]), st.sampled_from([None, *retries])
    return {
        "repositories": [{"name": name, "location": f"{folder}/{place}"} for place, name in enumerate(repositories)],
        "retry_policies": rows(
            retries, algorithm=st.just("fibonacci"), parameters=st.sampled_from([{}, {"unit": 7}]),
            max_delay=st.integers(1, 10**6), max_failures=optional(st.integers(1, 9)),
            give_up_after=optional(st.integers(1, 10**6)),
        ),
        "throttles": rows(
            throttles, max_in_flight=st.integers(0, 9), rate=optional(st.sampled_from([0.001, 2, 5.5])),
            burst=optional(st.integers(1, 9)),
        ),
        "endpoints": rows(
            endpoints, url=st.just("https://example.com/hook"),
            headers=st.dictionaries(st.just("X-Tenant"), TRICKY.filter(str.isascii)),
            timeout=SECONDS.filter(lambda value: value <= 3600), follow_redirects=st.booleans(),
        ),
        "schedules": rows(
            schedules, cron=st.just(cron), zone=st.just(zone), event_count=st.integers(1, 9), enabled=st.booleans(),
            window_for=st.integers(1, 10**6), stagger=st.sampled_from(["none", "even"]), priority=st.integers(-9, 9),
            late=st.sampled_from(["deliver", "drop"]), overlap=st.sampled_from(["allow", "queue", "skip"]),
            catch_up_for=optional(st.integers(0, 10**6)), endpoint=st.sampled_from(endpoints),
            payload_template=JSON, throttle=throttle, retry_policy=retry,
        ),
        "policies": rows(
            policies, cron=st.just(cron), zone=st.just(zone), repository=st.sampled_from(repositories),
            window=st.sampled_from([[], [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]]),
            excluded_dates=st.sampled_from([[], ["12-25", "2026-12-27..2026-12-31", "2026-12-24", {"holidays": "AT"}]]),
            at_close=st.sampled_from(["finish", "stop"]), engine_options=st.sampled_from([{}, {"transfers": 4}]),
            seeding_limit=optional(st.integers(1, 9)), max_running_for=SECONDS.filter(lambda value: value >= 1),
            alert_after=optional(st.integers(1, 10**6)), throttle=throttle, retry_policy=retry, enabled=st.booleans(),
        ),
        "sources": [
            *rows(["folder"], kind=st.just("local"), path=st.just("/home/files"),
                  policies=st.lists(st.sampled_from(policies), unique=True)),
            *rows(["laptop"], kind=st.just("sftp"), address=st.just("laptop.example"), port=optional(st.just(2222)),
                  path=TRICKY, options=st.just({"user": "backup"}), secret=st.just("env:BACKUP_SECRET_X"),
                  host_key=st.just(HOST_KEY), wake_allowed=optional(st.just(False))),
        ],
        "alert_routes": rows(
            named(), url=st.just("env:BACKUP_SECRET_ROUTE"), enabled=st.booleans(),
            kinds=st.sampled_from([[], ["failing", "overdue"]]),
            policies=st.lists(st.sampled_from(policies), unique=True),
            quiet=st.sampled_from([[], [{"days": "mon-sun", "start": "22:00", "end": "06:00"}]]), zone=st.just(zone),
            digest=st.sampled_from(["none", "daily"]),
        ),
    }  # fmt: skip


@pytest.fixture(autouse=True)
def no_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty database, on a host with such disks."""
    RetryPolicy.objects.all().delete()
    monkeypatch.setattr("backups.repository_orders.ask", usable)


def usable(question: str, *place: object, ours: dict[str, Any] | None = None, **facts: object) -> dict[str, Any] | None:
    return {"id": ours["id"], "notices": []} if ours else None


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fleet=fleets())
def test_what_is_exported_is_what_is_imported(fleet: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    def imported(data: Any) -> dict[str, Any]:
        """The export of an empty database after an import."""
        with transaction.atomic():
            apply_fleet(data, "fleet", folder=Path("/"))
            found = export_fleet()
            again = apply_fleet(found, "fleet", folder=Path("/"), prune=True)
            assert again.changes == []
            transaction.set_rollback(True)
        return found

    first = imported(fleet)
    assert list(first) == list(SECTIONS) == list(Fleet.model_fields)
    for section, rows in fleet.items():
        assert sorted(row["name"] for row in rows) == sorted(row["name"] for row in first[section])
        exported = {row["name"]: row for row in first[section]}
        for row in rows:
            assert {key: exported[row["name"]][key] for key in row} == row | (
                {"policies": sorted(row["policies"])} if "policies" in row else {}
            )
    folder = tmp_path_factory.mktemp("fleet")
    for form in ("JSON", "YAML"):
        file = folder / f"fleet.{form.lower()}"
        file.write_text(formats.write(first, form), encoding="utf-8")
        assert formats.read(str(file)) == first
    assert imported(first) == first
