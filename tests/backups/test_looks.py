"""Points that are recorded are where their repository is said to be: by looks, and before it is moved."""

import json
import shutil
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backups import holdings, locations
from backups.upkeep import looks, repository_trials
from fleet.files.apply import FleetError, apply_fleet
from fleet.status import reasons_of, summary
from jobs.clock import database_clock
from jobs.handlers import Run
from jobs.models import BacklogRecord, Breaker, Decision
from jobs.states import UNFINISHED
from sealing import stored_secrets
from sources.availability.repository_breaker import guarded_by
from sources.models import Assignment, Backup, CheckRound, Repository
from sources.planning import names
from storage import layout
from storage.places import identity
from storage.points.checking import GONE
from storage.points.store import Store
from tests.api.asking import Program
from tests.backups.points_to_remove import add_backup
from tests.commands import command
from tests.engines.peers import PASSWORD
from tests.engines.served import serving
from tests.operations.conditions.examining import finding
from tests.people import staff
from tests.sources.factories import claim, make_assignment, make_policy, make_source, settle
from tests.storage.played_runs import BEGAN

pytestmark = pytest.mark.django_db(transaction=True)

NOW = BEGAN + timedelta(days=9)
POINT = "20260301T090000Z"
run, refused = command("repositories")
SECRETS = {"secret_access_key": "stored:cloud"}


def filled(repository: Repository, root: Path, sources: int = 3) -> list[Assignment]:
    """Sources with a point each, in a repository whose files lie below `root`."""
    policy, made = make_policy(repository=repository), list[Assignment]()
    for number in range(sources):
        each = make_assignment(
            policy, make_source(name=f"s{number}"), directory=f"s{number}/daily", last_backup_at=BEGAN,
            next_backup_at=NOW + timedelta(days=1),
        )  # fmt: skip
        add_backup(each, POINT, number)
        manifest = root / layout.manifest_path(each.directory, POINT)
        manifest.parent.mkdir(parents=True)
        manifest.write_bytes(b"x")
        made.append(each)
    outside = Store(locations.location_of(repository).bare, threading.Event())
    identity.write(outside, locations.identity_of(repository))
    Repository.objects.filter(pk=repository.pk).update(made_at=BEGAN)
    return made


@pytest.fixture
def office(tmp_path: Path) -> Repository:
    return Repository.objects.create(name="office", location=str(tmp_path / "office"))


@pytest.fixture
def sources(office: Repository) -> list[Assignment]:
    return filled(office, Path(office.location))


def look(now: Any = NOW) -> None:
    """Carry out the planned record, and settle it."""
    assert looks.plan(now) == 1
    claimed = claim("default", now)
    settle(claimed, looks.look(Run(claimed)), now)


def doubtful() -> int:
    return summary(NOW).in_need


def manifest(assignment: Assignment) -> Path:
    return Path(assignment.policy.repository.location, layout.manifest_path(assignment.directory, POINT))


AHEAD = "20270301T090000Z"


@pytest.mark.parametrize("ending", ["", "/5e5e5e5e"], ids=["rclone", "restic"])
@pytest.mark.parametrize("later", [1, 2, 10])
def test_the_newest_point_is_the_last_one_also_after_a_clock_that_was_ahead(
    sources: list[Assignment], later: int, ending: str
) -> None:
    """All names after it have its second, and their times are earlier."""
    one, office = sources[0], Repository.objects.get()
    names = [AHEAD, *(f"{AHEAD}-{number}" for number in range(2, later + 1))]
    for number, name in reversed([*enumerate(names, start=10)]):
        row = add_backup(one, name, number)
        at = row.started_at if name == AHEAD else NOW + timedelta(hours=number)
        Backup.objects.filter(pk=row.pk).update(started_at=at, ended_at=at, snapshot=name + ending)
    assert looks.wanted_in(office, None, 0, 1)[0].newest == names[-1]
    first = holdings.newest_first(one.backups.all()).first()
    assert first is not None
    assert first.snapshot == names[-1] + ending


class TestALook:
    def test_misses_a_point_and_finds_it_again(self, sources: list[Assignment]) -> None:
        look()
        assert (doubtful(), looks.plan(NOW), CheckRound.objects.count()) == (0, 0, 0), "once an hour"
        file = manifest(sources[1])
        file.rename(file.with_name("elsewhere"))
        later = NOW + timedelta(hours=2)
        look(later)
        assert doubtful() == 1
        assert f"cannot be restored from repository office, though nothing here has removed it: {POINT}" in "".join(
            reasons_of([sources[1].source], NOW).values()
        )
        assert Decision.objects.get(what="missed").subject == f"assignment:{sources[1].pk}"
        file.with_name("elsewhere").rename(file)
        Assignment.objects.update(last_backup_at=later)  # seen by a backup, and yet looked for
        look(later + timedelta(minutes=61))
        assert (doubtful(), CheckRound.objects.get().damage) == (0, [])

    def test_of_a_disk_that_is_away_is_doubt_of_all_and_is_repeated_soon(self, sources: list[Assignment]) -> None:
        root = Path(sources[0].policy.repository.location)
        shutil.move(root, root.with_name("away"))
        for mounted in (False, True):  # neither the mount point nor without it
            look(NOW + timedelta(minutes=11 * mounted))
            assert doubtful() == 3
            root.mkdir(exist_ok=True)
        assert not CheckRound.objects.exclude(damage=[]).exists(), "no point is lost by that"
        assert finding("places").what.startswith("not in their place: office since")
        assert looks.plan(NOW + timedelta(minutes=12)) == 0
        root.rmdir()
        shutil.move(root.with_name("away"), root)
        look(NOW + timedelta(minutes=22))
        assert doubtful() == 0

    def test_comes_at_once_when_a_run_fails_and_once_when_the_breaker_opens(self, sources: list[Assignment]) -> None:
        look()
        office = sources[0].policy.repository
        breaker = Breaker.objects.create(key=guarded_by(office).key, failures=1)

        def planned(after: int, **seen: Any) -> int:
            """`after` so many minutes, the breaker being as it was `seen`."""
            at = {name: NOW + timedelta(minutes=value) for name, value in seen.items()}
            Breaker.objects.filter(pk=breaker.pk).update(**at)
            return looks.plan(NOW + timedelta(minutes=after))

        assert planned(6, last_failure_at=5) == 0, "the last look is recent"
        look(NOW + timedelta(minutes=11))
        assert planned(59, last_failure_at=5) == 0, "it has looked since"
        shutil.move(office.location, f"{office.location} away")
        assert planned(13, last_failure_at=14, opened_at=14, probe_at=15) == 0, "of a clock that was ahead"
        look(NOW + timedelta(minutes=15))
        assert doubtful() == 3
        Repository.objects.update(away_since=None, away_why="")
        assert planned(50, last_failure_at=49) == 0, "a trial that failed is nothing new"
        Repository.objects.update(looked_at=None, made_at=NOW + timedelta(minutes=10))
        assert planned(50) == 1, "and had not been looked for"

    def test_in_vain_of_a_silent_one_is_doubt_after_an_hour(self, sources: list[Assignment]) -> None:
        remote = {"type": "sftp", "host": "127.0.0.1", "port": "1", "user": "x", "host_keys": "ssh-ed25519 AAAA"}
        Repository.objects.update(remote=remote)
        look()
        assert (doubtful(), bool(Repository.objects.get().away_since)) == (0, True)
        look(NOW + timedelta(hours=1))
        assert doubtful() == 3

    def test_goes_on_behind_what_an_earlier_one_has_seen(
        self, sources: list[Assignment], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(looks, "BATCH", 1)
        monkeypatch.setattr(looks, "MOST_MISSING", 1)
        for each in sources[:2]:
            manifest(each).unlink()
        look()
        assert (doubtful(), Repository.objects.get().looked_to) == (1, sources[0].pk)
        look(NOW + timedelta(minutes=1))
        look(NOW + timedelta(minutes=2))
        assert (doubtful(), Repository.objects.get().looked_to) == (2, 0)

    def test_of_a_place_that_was_edited_meanwhile_is_dropped(self, sources: list[Assignment]) -> None:
        manifest(sources[0]).unlink()
        assert looks.plan(NOW) == 1
        claimed = claim("default", NOW)
        outcome = looks.look(Run(claimed))
        Repository.objects.update(location="/srv/elsewhere")
        settle(claimed, outcome, NOW)
        assert doubtful() == 0

    @pytest.mark.slow
    def test_asks_a_remote_by_name_also_where_names_are_encrypted(self, tmp_path: Path) -> None:
        stored_secrets.store("cloud", PASSWORD)
        stored_secrets.store("key", "5" * 64)
        with serving("s3", tmp_path / "s3") as (remote, _, path):
            for key in ("", "stored:key"):
                Assignment.objects.all().delete()
                row = Repository.objects.create(
                    name=f"cloud{key}", location=f"{path}{key[7:]}", remote=remote, secrets=SECRETS, key=key,
                    encrypted=bool(key),
                )  # fmt: skip
                store = Store(locations.location_of(row), threading.Event())
                (tmp_path / "m").write_bytes(b"x")
                there = layout.manifest_path("a/daily", POINT)
                store.put(tmp_path / "m", there)
                assert store.present([there, layout.manifest_path("b/daily", POINT)]) == {there}


class TestAMove:
    """A move to a place without the points is refused, or puts them in doubt if it is forced."""

    @pytest.fixture
    def empty(self, tmp_path: Path) -> str:
        (tmp_path / "empty").mkdir()
        return str(tmp_path / "empty")

    def test_by_the_command(self, sources: list[Assignment], empty: str) -> None:
        text = refused("set", "office", "--location", empty)
        assert f"the newest point of 3 sources of 3 is not there, such as {POINT} of s0" in text
        assert doubtful() == 0
        run("set", "office", "--location", empty, "--force")
        assert doubtful() == 3, "at once"
        assert BacklogRecord.objects.filter(kind=names.LOOK, status__in=UNFINISHED).count() == 0
        look()
        assert [(each["point"], each["why"]) for row in CheckRound.objects.all() for each in row.damage] == [
            (POINT, GONE)
        ] * 3
        run("set", "office", "--location", str(Path(empty).with_name("office")))
        look()
        assert doubtful() == 0

    def test_by_the_api(self, sources: list[Assignment], empty: str) -> None:
        program, path = Program(), f"repositories/{Repository.objects.get().pk}"
        answer = program.patch(path, {"location": empty})
        assert (answer.status_code, "is not there" in answer.content.decode()) == (422, True)
        assert program.patch(path, {"location": empty, "force": True}).status_code == 200
        assert doubtful() == 3

    def test_by_the_api_to_a_server_is_in_doubt_until_its_points_are_seen_there(
        self, sources: list[Assignment], tmp_path: Path
    ) -> None:
        stored_secrets.store("cloud", PASSWORD)
        program, path = Program(), f"repositories/{Repository.objects.get().pk}"
        with serving("s3", tmp_path) as (remote, _, _):
            for place, in_doubt in (("nothing", 3), ("office", 0)):
                moved = {"location": place, "remote": remote, "secrets": SECRETS}
                assert program.patch(path, moved).status_code == 200
                assert doubtful() == 3, "at once, although no server was asked"
                claimed = claim("default", database_clock())
                settle(claimed, repository_trials.look(Run(claimed)), database_clock())
                assert doubtful() == in_doubt, Repository.objects.get().tried
        Repository.objects.update(made_at=None)
        program.patch(path, {"location": "bucket/other"})
        assert doubtful() == 0, "nothing was ever backed up there"

    def test_by_the_admin(self, sources: list[Assignment], empty: str) -> None:
        row = Repository.objects.get()
        client = staff("change_repository", "view_repository", "use_any_folder")
        form = {"name": "office", "location": empty}
        page = client.post(f"/admin/sources/repository/{row.pk}/change/", form)
        assert "is not there, such as" in page.content.decode()
        client.post(f"/admin/sources/repository/{row.pk}/change/", form | {"force": "on"})
        assert doubtful() == 3

    def test_by_a_fleet_file(self, sources: list[Assignment], empty: str) -> None:
        fleet = {"repositories": [{"name": "office", "location": empty}]}
        with pytest.raises(FleetError, match="is not there, such as"):
            apply_fleet(fleet, "fleet.yaml")
        apply_fleet(fleet, "fleet.yaml", force=True)
        assert doubtful() == 3

    def test_with_its_files_is_taken_and_stays_made(self, sources: list[Assignment], tmp_path: Path) -> None:
        shutil.move(tmp_path / "office", tmp_path / "moved")
        run("set", "office", "--location", str(tmp_path / "moved"))
        assert (doubtful(), bool(Repository.objects.get().made_at)) == (0, True)

    def test_with_some_of_them_names_one_that_is_missing(self, sources: list[Assignment], tmp_path: Path) -> None:
        shutil.move(tmp_path / "office", tmp_path / "moved")
        (tmp_path / "moved" / layout.manifest_path("s2/daily", POINT)).unlink()
        text = refused("set", "office", "--location", str(tmp_path / "moved"))
        assert f"the newest point of 1 source of 3 is not there, such as {POINT} of s2" in text


class TestAPlaceOfOtherFiles:
    def test_is_not_made_a_repository_unasked(self, tmp_path: Path) -> None:
        (tmp_path / "home" / "letters").mkdir(parents=True)
        (tmp_path / "home" / "lost+found").mkdir()
        text = refused("add", "home", str(tmp_path / "home"))
        assert "it holds other files, such as letters: name an empty folder" in text
        assert f"{tmp_path}/home/backupsched" in text
        run("add", "home", str(tmp_path / "home"), "--force")
        (tmp_path / "disk" / "lost+found").mkdir(parents=True)
        run("add", "disk", str(tmp_path / "disk"))

    def test_such_as_a_foreign_restic_repository(self, tmp_path: Path) -> None:
        for each in ("data", "keys", "snapshots", "index", "locks"):
            (tmp_path / "theirs" / each).mkdir(parents=True)
        (tmp_path / "theirs" / "config").write_bytes(b"x")
        answer = Program().post("repositories", {"name": "x", "location": str(tmp_path / "theirs")})
        assert "a restic repository that this scheduler has not made" in json.dumps(answer.json())


def test_a_list_of_an_unmounted_place_says_so(sources: list[Assignment], tmp_path: Path) -> None:
    _, unlisted = command("restores points")
    shutil.move(tmp_path / "office", tmp_path / "away")
    assert "is not a directory here; is it mounted?" in unlisted("s0")
    (tmp_path / "office").mkdir()
    assert "there is no repository.json in" in unlisted("s0")
    Repository.objects.update(made_at=None)  # as once it was moved by force
    text = f"none of the 1 points that repository office has according to our records is in {tmp_path}/office"
    assert text in unlisted("s0")
