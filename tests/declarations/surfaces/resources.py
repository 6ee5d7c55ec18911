"""The declared resources, with values for each: a line here adds a new resource to the conformance tests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from declarations.service import Service
from delivery.models import Endpoint
from fleet.files.schema import SECTIONS
from jobs.states import Status
from schedules.models import Schedule
from sealing.encryption import unseal
from sealing.lookup import read_secret
from sealing.models import StoredSecret
from sealing.stored_secrets import StoredSecrets, store
from sources.models import Repository, Source
from tests.alerting.making import make_route
from tests.backups.stored_sources import LAPTOP
from tests.delivery.endpoint_rows import make_queue_endpoint
from tests.factories import NOON, make_record, make_retry_policy, make_schedule, make_throttle
from tests.jobs.throttling.rated import ready
from tests.sources.factories import HOST_KEY, make_assignment, make_policy, make_source

Values = dict[str, Any]
SERVICES: Mapping[str, type[Service[Any]]] = {**SECTIONS, "stored_secrets": StoredSecrets}
"""Resource → its service: the lists of a fleet file, and what none holds."""
SECRET = "slack://sw0rd/f1sh/s3cret"
"""Has the form of each of them."""


@dataclass(frozen=True)
class Example:
    """`whole`: a value for each declared field, none of them the usual one, but for those of `usual`. What it refers
    to is made. `change`: another value of one field. `another` makes a row that differs. `secret`: the name by which it
    is typed in, and how it is opened. Each of `uses` makes one that keeps a row from being deleted. `paused`: whether a
    row is.
    """

    whole: Callable[[Path], Values]
    change: Values
    another: Callable[[], Any]
    secret: str = ""
    opened: Callable[[Any], str | None] = lambda row: None
    uses: tuple[Callable[[Any], object], ...] = ()
    paused: Callable[[Any], bool] | None = None
    usual: frozenset[str] = frozenset()
    secret_value: str = SECRET


def _repository(folder: Path) -> Values:
    return {"name": "vault", "location": str(folder / "vault")}


def _retry_policy(_: Path) -> Values:
    return {
        "name": "patient", "algorithm": "fibonacci", "parameters": {"unit": 7}, "max_delay": 600, "max_failures": 3,
        "give_up_after": 9_000,
    }  # fmt: skip


def _throttle(_: Path) -> Values:
    return {"name": "gentle", "max_in_flight": 5, "rate": 2.5, "burst": 10}


def _endpoint(_: Path) -> Values:
    return {
        "name": "shop", "url": "https://example.com/hook?a=1", "headers": {"X-Tenant": "7"}, "connect_timeout": 4,
        "timeout": 10, "follow_redirects": True,
    }  # fmt: skip


def _receiver() -> str:
    return Endpoint.objects.get_or_create(name="hooks", url="https://example.com/hook")[0].name


def _schedule(_: Path) -> Values:
    return {
        "name": "nightly", "enabled": False, "cron": "30 3 * * *", "zone": "Europe/Berlin", "event_count": 10,
        "window_for": 3_600, "stagger": "even", "late": "drop", "overlap": "skip", "catch_up_for": 86_400,
        "kind": "http_callback", "endpoint": _receiver(), "payload_template": {"shard": "$number"},
        "throttle": make_throttle(3).name, "retry_policy": make_retry_policy().name, "priority": -3,
    }  # fmt: skip


def _policy(_: Path) -> Values:
    first, second = (Repository.objects.create(name=name, location=f"/srv/{name}").name for name in ("here", "there"))
    ranges = [{"start": "7:5", "end": "06:00"}, {"days": "Sat - Sun", "start": "08:00", "end": "08:00"}]
    return {
        "name": "laptops", "enabled": False, "repository": first, "priority": 5, "cron": "0 12 * * *",
        "zone": "Europe/Berlin", "window": ranges,
        "excluded_dates": ["12-25", {"holidays": "FR"}, "2026-12-27..2026-12-31"],
        "at_close": "stop", "only_if_it_fits": True,
        "engine_options": {"transfers": 2, "ignore_ctime": False, "exclude": [" a*", '<"&\'>']}, "hook": "nightly",
        "keep": {"last": 3, "within": "2d"}, "copy_to": second, "copy_within": 7_200,
        "copy_window": [{"start": "20:00", "end": "06:00"}], "copy_bandwidth": "512K", "check_within": 86_400,
        "drill_every": 172_800, "drill_from": "copy", "max_running_for": 7_200, "least_rate": 4_096,
        "retry_policy": make_retry_policy().name, "throttle": make_throttle(3).name, "seeding_limit": 2,
        "connect_timeout": 10, "recheck_after": 20, "vanish_grace": 30, "address_follows": True, "on_battery": False,
        "on_metered": False, "wake_allowed": True, "wake_every": 30, "wake_wait": 40, "alert_after": 86_400,
        "outcomes_endpoint": _receiver(), "ping_url": store("ping", SECRET),
    }  # fmt: skip


def _source(_: Path) -> Values:
    return {
        "name": "laptop", "kind": "sftp", "address": "192.0.2.7", "port": 2222, "path": "/home",
        "options": {"user": "backup"}, "secret": "env:BACKUP_SECRET_X", "host_key": HOST_KEY, "wake_allowed": True,
        "mac_address": "02:00:00:aa:bb:cc", "wake_port": 7, "policies": sorted(str(make_policy()) for _ in range(2)),
    }  # fmt: skip


def _alert_route(_: Path) -> Values:
    return {
        "name": "ops", "url": store("chat", SECRET), "enabled": False, "kinds": ["failing", "overdue"],
        "policies": sorted(str(make_policy()) for _ in range(2)), "quiet": [{"start": "22:00", "end": "06:00"}],
        "zone": "Europe/Berlin", "digest": "daily",
    }  # fmt: skip


def _records_of(policy: Any) -> None:
    for status in (Status.WAITING, Status.SUCCEEDED, Status.SUCCEEDED):
        make_record(status, retry_policy=policy)


EXAMPLES: dict[str, Example] = {
    "repositories": Example(
        _repository, {"name": "cellar"}, lambda: make_policy().repository,
        uses=(lambda row: make_policy(repository=row),),
        usual=frozenset({"format", "remote", "secrets", "encrypted", "key"}),
    ),
    "retry_policies": Example(
        _retry_policy, {"max_delay": 700}, make_retry_policy,
        uses=(lambda row: make_schedule(name="<i>weekly", retry_policy=row), _records_of),
    ),
    "throttles": Example(
        _throttle, {"rate": 3.5}, lambda: make_throttle(0), paused=lambda row: row.max_in_flight == 0,
        uses=(lambda row: make_schedule(name="<i>weekly", throttle=row), lambda row: ready(row, 2)),
    ),
    "endpoints": Example(
        _endpoint, {"timeout": 7}, make_queue_endpoint, "authorization", lambda row: unseal(row.sealed_authorization),
        uses=(lambda row: make_record(kind="http_callback", payload={"endpoint": row.pk}),),
        usual=frozenset({"kind", "region", "message_group"}),
    ),
    "schedules": Example(
        _schedule, {"window_for": 7_200}, make_schedule, paused=lambda row: not row.enabled,
        uses=(lambda row: make_record(Status.READY, origin=row, trigger_at=NOON),),
        usual=frozenset({"provider"}),
    ),
    "policies": Example(
        _policy, {"recheck_after": 25}, make_policy, uses=(make_assignment,),
        paused=lambda row: not Schedule.objects.get(pk=row.schedule_id).enabled,
    ),
    "sources": Example(
        _source, {"port": 22}, make_source, paused=lambda row: row.paused_at is not None,
        usual=frozenset({"secrets", "wake_address", "retired"}),
    ),
    "alert_routes": Example(
        _alert_route, {"digest": "weekly"}, make_route, "secret_url", lambda row: read_secret(row.url)
    ),
    "stored_secrets": Example(
        lambda _: {"name": "nas"}, {"value": "herring"}, lambda: StoredSecret.objects.create(name="other", sealed=""),
        "value", lambda row: unseal(row.sealed),
        uses=(lambda row: Source.objects.create(**LAPTOP | {"secret": f"stored:{row.name}"}),),
    ),
}  # fmt: skip


def make(resource: str, folder: Path) -> Any:
    """A row as its service makes it; what may be paused is not."""
    service, values = SERVICES[resource](), EXAMPLES[resource].whole(folder)
    declared = {name: value for name, value in values.items() if name in service.declaration.model_fields}
    declared |= {"value": SECRET} if resource == "stored_secrets" else {}
    return service.edit(service.new(), declared | ({"enabled": True} if "enabled" in declared else {})).row


def wrong_types(service: type[Service[Any]]) -> Values:
    """A value of another type for each field."""
    return {name: 7 if kinds & {"string", "array", "object"} else "x" for name, kinds, _ in _fields(service)}


def out_of_range(service: type[Service[Any]]) -> Values:
    """A value out of bounds for each field with bounds, choices or a zone."""
    found: Values = {"zone": "Mars/Olympus"} if "zone" in service.declaration.model_fields else {}
    for name, _, variants in _fields(service):
        for each in variants:
            if "enum" in each or "const" in each:
                found[name] = "none of these"
            elif "maxLength" in each:
                found.setdefault(name, "x" * (each["maxLength"] + 1))
            elif "maximum" in each:
                found[name] = each["maximum"] + 1
    return found


def unknown_references(service: type[Service[Any]]) -> Values:
    """A name that no row has for each field that refers to other rows."""
    row = service().new()
    of_many = {name for name, kinds, _ in _fields(service) if "array" in kinds}
    names = [name for name in service.declaration.model_fields if service().refers(row, name)]
    return {name: ["none such"] if name in of_many else "none such" for name in names}


def _fields(service: type[Service[Any]]) -> Iterator[tuple[str, set[str], list[dict[str, Any]]]]:
    properties = service.declaration.model_json_schema()["properties"]
    for name in service.declaration.model_fields:
        variants = [each for each in properties[name].get("anyOf", [properties[name]]) if each.get("type") != "null"]
        yield name, {each.get("type", "any") for each in variants}, variants
