"""`apply` and `export_fleet`: the plan that is printed, what is deleted, and files that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from delivery.models import Endpoint
from jobs.models import RetryPolicy, Throttle
from schedules.models import Schedule
from sources.models import Policy, Source
from tests.commands import command

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]

FLEET = """
repositories:
  - {name: vault, location: vault}
throttles:
  - {name: gentle, max_in_flight: 20, rate: 5}
endpoints:
  - {name: hooks, url: https://example.com/hook}
schedules:
  - {name: nightly, cron: {hour: 3}, endpoint: hooks, window_for: 1h, throttle: gentle, payload_template: {a: $number}}
policies:
  - {name: daily, cron: 0 9 * * *, repository: vault, throttle: gentle, excluded_dates: [2026-12-24, 12-25]}
sources:
  - {name: folder, kind: local, path: /home/files, policies: [daily]}
"""


run, refused = command("apply", with_errors=True)
export, _ = command("sources export")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A fleet that was applied."""
    RetryPolicy.objects.all().delete()
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    run(str(path))
    return path


def rewrite(file: Path, *changes: tuple[str, str]) -> str:
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return str(file)


def test_a_file_in_yaml_says_what_one_in_json_does(file: Path) -> None:
    schedule, policy = Schedule.objects.get(name="nightly"), Policy.objects.get()
    assert (schedule.cron, schedule.window_for, schedule.kind) == ("0 3 * * *", 3600, "http_callback")
    assert (policy.excluded_dates, str(policy.schedule.throttle)) == (
        ["2026-12-24", "12-25"], "gentle (at most 20, 5 a second)",
    )  # fmt: skip
    assert [str(each.policy) for each in Source.objects.get().assignments.all()] == ["daily"]
    assert "nothing changed" in run(str(file))


def test_the_plan_has_each_change_with_old_and_new(file: Path) -> None:
    path = rewrite(file, ("max_in_flight: 20", "max_in_flight: 10"), ("name: folder", "name: other"))
    lines = run(path, "--dry-run", "--prune").splitlines()
    assert lines[:5] == [
        "~ change throttle gentle",
        "    max_in_flight: 20 → 10",
        "+ create source other",
        "- delete source folder",
        "1 to create, 1 to change, 1 to delete, 4 unchanged",
    ]
    assert lines[-1] == "dry run: nothing was kept"
    assert (Throttle.objects.get().max_in_flight, Source.objects.get().name) == (20, "folder")


def test_prune_asks_first_and_goes_by_the_sections_that_there_are(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("schedules: []\nendpoints: []\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "n")
    assert "nothing was changed" in run(str(file), "--prune")
    assert asked == ["Delete 2 rows? [y/N] "]
    assert Endpoint.objects.exists()
    run(str(file), "--prune", "--yes")
    assert not Endpoint.objects.exists()
    assert list(Schedule.objects.values_list("name", flat=True)) == ["daily"]
    assert Throttle.objects.exists()


def test_a_schedule_of_a_policy_and_a_throttle_of_a_seeding_limit_are_declared_with_it(file: Path) -> None:
    run(rewrite(file, ("throttle: gentle, excluded", "throttle: gentle, seeding_limit: 2, excluded")))
    exported = json.loads(export("--json"))
    assert [row["name"] for row in exported["throttles"]] == ["gentle"]
    assert [row["name"] for row in exported["schedules"]] == ["nightly"]
    assert "nothing changed" in run(str(file), "--prune", "--yes")


def test_what_is_exported_is_applied_again(file: Path) -> None:
    for name in ("all.yaml", "all.json"):
        path = str(file.with_name(name))
        assert "is written" in export(path)
        assert "nothing changed" in run(path, "--prune", "--yes")
    assert export() == file.with_name("all.yaml").read_text()
    assert set(json.loads(export("--schema"))["properties"]) >= {"sources", "throttles"}


def test_an_authorization_is_in_no_file_and_stays_at_its_host(file: Path) -> None:
    Endpoint.objects.update(sealed_authorization="sealed")
    assert "sealed" not in export()
    error = refused(rewrite(file, ("https://example.com", "https://evil.example.org")))
    assert "endpoints[0] (hooks): authorization: the Authorization that is set is for" in error


BOMB = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "is not YAML: line 2, column 8: aliases are not supported"),
        ("throttles: [{name: a, name: b}]", "is not YAML: line 1"),
        ("sources: [", "is not YAML: line"),
        ("throttles: !!python/object/new:os.system [x]", "is not YAML"),
        ("throttles: [{name: a, max_in_flight: 1, rate: .inf}]", "must be a finite number"),
        ("throttles: [{name: yes, max_in_flight: 1, 7: x}]", "throttles[0] (yes): 7"),
        ("- a", "is not an object with repositories"),
        ("", "is not an object with repositories"),
        ("[" * 200_000, "is nested too deeply"),
        (b"\xff\xfe", "is not UTF-8 text"),
        ('{"sources": [', "bad.yaml is not JSON: line 1, column 14"),
        ('{"sources": [], "sources": []}', "the key 'sources' is given twice"),
    ],
)
def test_a_bad_file_is_refused_in_words(content: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in refused(str(path))


def test_a_file_that_is_not_there_or_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.files.formats.LARGEST", {"JSON": 50, "YAML": 20})
    assert "cannot read" in refused(str(tmp_path / "large.yaml"))
    (tmp_path / "large.yaml").write_text("throttles: []" + " " * 30)
    assert "is larger than 20 bytes; write it as JSON" in refused(str(tmp_path / "large.yaml"))


def test_a_dry_run_says_what_would_be_put_on_the_backlog_and_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    with caplog.at_level("INFO"):
        printed = run(str(path), "--dry-run")
    assert "would be put on the backlog: 1 backup" in printed
    assert not caplog.text
    assert "\nput on the backlog: 1 backup" in run(str(path))
