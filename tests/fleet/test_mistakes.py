"""Plausible values that mean something else than what they do: each is a refusal or a warning that says so."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from fleet import duplicates
from fleet.files.apply import FleetError, apply_fleet
from sources.models import Policy, Repository, Source
from tests.commands import command
from tests.sources.factories import make_assignment, make_policy, make_source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("orders_run_here")]


@pytest.fixture(autouse=True)
def no_presets() -> None:
    Repository.objects.all().delete()


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("s3://bucket/backups", 'such as {"type": "s3", …}, and the path there in `location`, such as bucket/backups'),
        ("sftp:nas/backups", 'such as {"type": "sftp", …}, and the path there in `location`, such as nas/backups'),
        ("me@nas.example.org:/srv/backups", '`remote`, such as {"type": "sftp", …}, and the path there in `location`'),
        ("file:///srv/backups", "write the path alone, such as /srv/backups"),
        ("~/backups", "only a shell reads ~ and variables: write the whole path"),
        ("$HOME/backups", "only a shell reads ~ and variables: write the whole path"),
        ("C:\\backups", "it is not a path on this host"),
    ],
)
def test_a_location_that_is_no_folder_is_refused_also_in_a_fleet_file(location: str, text: str, tmp_path: Path) -> None:
    fleet = {"repositories": [{"name": "x", "location": location}]}
    with pytest.raises(FleetError) as refused:
        apply_fleet(fleet, "fleet.yaml", folder=tmp_path)
    assert text in str(refused.value)
    assert not list(tmp_path.iterdir()), "none was made below the folder of the file"
    assert text in command("repositories")[1]("add", "x", location)


def test_a_path_of_a_source_is_not_read_by_a_shell() -> None:
    with pytest.raises(FleetError, match="only a shell reads ~ and variables"):
        apply_fleet({"sources": [{"name": "x", "kind": "local", "path": "~/letters"}]}, "fleet.yaml")


def test_a_url_is_no_path_in_a_remote() -> None:
    remote = {"type": "s3", "provider": "Other", "endpoint": "https://s3.example.org", "access_key_id": "me"}
    with pytest.raises(FleetError, match="is a URL; name the host in `remote`"):
        apply_fleet({"repositories": [{"name": "x", "location": "s3://b/c", "remote": remote}]}, "fleet.yaml")


@pytest.mark.parametrize(("end", "is_doubtful"), [("05:00", True), ("06:00", False)])
def test_a_window_that_ends_when_it_begins_is_asked_about(end: str, *, is_doubtful: bool) -> None:
    policy = make_policy()
    window = [{"days": "mon-sun", "start": "05:00", "end": end}]
    report = apply_fleet({"policies": [{"name": str(policy), "window": window}]}, "fleet.yaml")
    assert any("its range 05:00–05:00 lasts 24 hours" in each for each in report.warnings) is is_doubtful
    whole = [{"start": "00:00", "end": "00:00"}]
    assert not apply_fleet({"policies": [{"name": str(policy), "window": whole}]}, "fleet.yaml").warnings


def test_two_sources_of_one_place_are_asked_about() -> None:
    place = {"kind": "local", "path": "/srv/letters"}
    rows: list[dict[str, Any]] = [{"name": "a", **place}, {"name": "b", "kind": "local", "path": "/srv/other"}]
    assert not apply_fleet({"sources": rows}, "fleet.yaml").warnings
    text = "has the same place: its files are backed up twice. If it was renamed, use `renamed_from`"
    [warning] = apply_fleet({"sources": [{"name": "c", **place}]}, "fleet.yaml").warnings
    assert warning == f"source c: source a {text} in a fleet file, or rename the old one"


def test_of_a_fleet_whose_sources_have_one_path_only_those_at_its_address_are_read() -> None:
    for number in range(20):
        make_source(name=f"laptop {number}", address=f"10.0.0.{number}", path="/home")
    read = []

    def counted(execute: Any, sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        found = execute(sql, params, many, context)
        read.append(context["cursor"].rowcount)
        return found

    with connection.execute_wrapper(counted):
        assert not duplicates.alike([Source.objects.get(name="laptop 3")])
    assert read == [1, 1]


class TestARowThatWasRenamed:
    def test_keeps_all_that_it_has(self) -> None:
        source = make_assignment(source=make_source(name="old", kind="local", path="/srv/x")).source
        fleet = {"sources": [{"name": "new", "renamed_from": "old", "kind": "local", "path": "/srv/x"}]}
        report = apply_fleet(fleet, "fleet.yaml", prune=True)
        assert [(each.action, each.fields) for each in report.changes] == [("change", {"name": ("old", "new")})]
        assert Source.objects.get().pk == source.pk
        assert not apply_fleet(fleet, "fleet.yaml", prune=True).changes, "a second time nothing changes"

    def test_may_be_a_policy_that_others_refer_to(self) -> None:
        policy = make_assignment().policy
        fleet = {"policies": [{"name": "renamed", "renamed_from": str(policy)}]}
        apply_fleet(fleet, "fleet.yaml")
        assert str(Policy.objects.get()) == "renamed"

    def test_is_not_guessed_where_both_are_there(self) -> None:
        for name in ("old", "new"):
            make_source(name=name)
        with pytest.raises(FleetError, match="renamed_from: 'old' and 'new' both exist"):
            apply_fleet({"sources": [{"name": "new", "renamed_from": "old"}]}, "fleet.yaml")

    @pytest.mark.parametrize("named", [["old"], {"name": "old"}, 5])
    def test_names_what_is_no_name(self, named: object) -> None:
        with pytest.raises(FleetError, match=r"sources\[0\] \(new\): renamed_from: must be a name"):
            apply_fleet({"sources": [{"name": "new", "renamed_from": named}]}, "fleet.yaml")
