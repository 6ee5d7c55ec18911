"""Repositories on remotes, as people make them: by the command, the API, the admin and a fleet file."""

import json
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from backups import locations
from engines.at_repositories import point_upkeep
from fleet.files.apply import apply_fleet
from fleet.repository_edits import Repositories
from jobs.conf import PROGRAM
from jobs.models import Decision
from sealing import stored_secrets
from sealing.models import StoredSecret
from sources.models import Repository
from storage.places import identity
from storage.points.store import StorageFailed, Store
from tests.api.asking import Program, make_user
from tests.commands import command
from tests.engines.peers import PASSWORD
from tests.engines.served import serving
from tests.people import staff
from tests.programs import needs_restic

pytestmark = pytest.mark.django_db

MAY_EDIT = ("add_repository", "change_repository", "view_repository")
S3 = {"type": "s3", "provider": "Other", "endpoint": "https://s3.example.org", "access_key_id": "me"}
run, refused = command("repositories")
SECRETS = {"secret_access_key": "stored:cloud"}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The fields of a repository in a bucket of a real server, in `tmp_path/s3`."""
    stored_secrets.store("cloud", PASSWORD)
    with serving("s3", tmp_path / "s3") as (remote, _, path):
        yield {"name": "cloud", "location": path, "remote": remote, "secrets": SECRETS}


class TestAnEncryptedOne:
    @pytest.mark.slow
    def test_shows_its_key_once_and_by_export(self, cloud: dict[str, Any], tmp_path: Path) -> None:
        values = [f"--set={name}={json.dumps(cloud[name])}" for name in ("remote", "secrets")]
        made = run("add", "cloud", cloud["location"], "--encrypted", *values)
        row = Repository.objects.get()
        key = locations.key_of(row)
        assert f"its key, shown this once: {key}" in made
        assert row.key.startswith("stored:repository-cloud-")
        [use] = stored_secrets.StoredSecrets().uses(StoredSecret.objects.get(name="cloud"))
        assert "cloud is used by the repository cloud" in use
        assert key in run("key", "cloud")
        assert Decision.objects.get(what="key read").text.endswith("read the key of repository cloud")
        assert "was written, read and deleted" in run("test", "cloud")
        assert json.loads(run("list", "--json"))[0]["encrypted"] is True
        assert not [each for each in tmp_path.rglob("s3/**/*") if each.is_file()]
        for change in ({"encrypted": False}, {"key": ""}):
            with pytest.raises(ValidationError) as found:
                Repositories().edit(row, change)
            assert found.value.message_dict.keys() <= {"encrypted", "key"}

    @pytest.mark.usefixtures("orders_run_here")
    def test_says_with_its_key_which_program_opens_it(self, tmp_path: Path) -> None:
        stored_secrets.store("vault", "5e" * 32)
        opened = {
            "rclone": f"a remote of type crypt above the folder {tmp_path}/rclone/encrypted,",
            "restic": f"With restic alone: its repository is the folder {tmp_path}/restic/restic,",
        }
        for format, text in opened.items():
            place = {"location": str(tmp_path / format), "format": format, "key": "stored:vault"}
            Repository.objects.create(name=format, encrypted=True, **place)
            assert text in run("key", format)
        server = {"type": "rest", "url": "https://backup.example.org:8000"}
        key = {"location": "me", "remote": server, "format": "restic", "key": "stored:vault"}
        Repository.objects.create(name="server", encrypted=True, **key)
        assert "RECOVER.txt" not in run("key", "server"), "it takes no files but restic's"

    @pytest.mark.slow
    def test_says_whose_it_is_and_is_not_opened_by_another_key(self, tmp_path: Path) -> None:
        vault = {"name": "vault", "location": str(tmp_path / "vault")}
        row = Repositories().edit(Repository(), vault | {"encrypted": True}).row
        outside = Store(locations.location_of(row).bare, threading.Event())
        identity.write(outside, locations.identity_of(row))  # as its first backup does
        stored_secrets.store("another", "a" * 64)
        with pytest.raises(ValidationError, match="the key is not the one that it was made with"):
            Repositories().edit(row, {"key": "stored:another"})
        row.refresh_from_db()
        Repository.objects.all().delete()  # as when the database is lost
        key = {"encrypted": True, "key": row.key}
        with pytest.raises(ValidationError, match="the repository vault of another installation"):
            Repositories().edit(Repository(), vault | key)
        service = Repositories()
        service.take_over = True
        assert service.edit(Repository(), vault | key).row.identity == row.identity

    def test_has_a_key_in_the_database_too(self) -> None:
        for wrong in ({"encrypted": True}, {"key": "stored:x"}):
            with pytest.raises(IntegrityError), transaction.atomic():
                Repository.objects.create(name="x", location="/srv/x", **wrong)


@pytest.mark.usefixtures("orders_run_here")
class TestOnEverySurface:
    def test_the_api_answers_the_key_once(self, cloud: dict[str, Any]) -> None:
        program = Program()
        made = program.post("repositories", cloud | {"encrypted": True})
        assert made.status_code == 201
        assert made.json()["new_key"] == locations.key_of(Repository.objects.get())
        assert "new_key" not in program.get(f"repositories/{made.json()['id']}").json()

    def test_so_does_the_admin_and_shows_it_again_by_a_permission_of_its_own(self, tmp_path: Path) -> None:
        form = {"name": "vault", "location": str(tmp_path / "vault"), "format": "rclone", "encrypted": "on"}
        page = staff(*MAY_EDIT, "use_any_folder").post("/admin/sources/repository/add/", form)
        row = Repository.objects.get()
        key = str(locations.key_of(row))
        assert key in page.content.decode()
        address = f"/admin/sources/repository/{row.pk}/key/"
        assert key not in staff(*MAY_EDIT).get(address).content.decode()
        keeper = staff(*MAY_EDIT, "export_key_of_repository")
        assert key in keeper.get(address).content.decode()
        plain = Repository.objects.create(name="plain", location=str(tmp_path / "plain"))
        pages = [keeper.get(f"/admin/sources/repository/{each.pk}/change/").content.decode() for each in (row, plain)]
        assert ["Show key" in page for page in pages] == [True, False]

    def test_a_fleet_file_makes_one_too(self, cloud: dict[str, Any]) -> None:
        report = apply_fleet({"repositories": [cloud | {"encrypted": True}]}, "fleet.json")
        assert any(str(locations.key_of(Repository.objects.get())) in each for each in report.warnings)

    def test_one_that_cannot_be_used_is_not_made(self, cloud: dict[str, Any]) -> None:
        stored_secrets.store("wrong", "x")
        remote = f"--set=remote={json.dumps(cloud['remote'])}"
        secrets = '--set=secrets={"secret_access_key": "stored:wrong"}'
        assert "it refuses the credentials" in refused("add", "cloud", cloud["location"], remote, secrets)
        assert not Repository.objects.exists()


@needs_restic
@pytest.mark.slow
class TestOneOfResticThatCannotBeLikeTheFirst:
    """Equal data is then stored in both, as the notice for its maker reads."""

    @pytest.fixture(autouse=True)
    def first(self, tmp_path: Path) -> Repository:
        stored_secrets.store("first", "f" * 64)
        place = {"location": str(tmp_path / "burnt"), "format": "restic", "encrypted": True, "key": "stored:first"}
        return Repository.objects.create(name="first", **place)

    @pytest.fixture
    def second(self, tmp_path: Path) -> dict[str, Any]:
        return {"name": "second", "location": str(tmp_path / "second"), "format": "restic"}

    def check(self, text: str, second: dict[str, Any]) -> None:
        assert "differently from first, which did not say how it does: " in text
        assert f"`{PROGRAM} repositories remove second`, delete the files in {second['location']}, and" in text

    def test_says_so_by_the_command_and_not_where_it_is_there(self, second: dict[str, Any], tmp_path: Path) -> None:
        loud, _ = command("repositories", with_errors=True)
        self.check(loud("add", second["name"], second["location"], "--format", "restic"), second)
        row = Repository.objects.get(name="second")
        assert not any(Repositories().finish(row))
        Repository.objects.filter(name="first").delete()
        assert "differently" not in loud("add", "third", tmp_path / "third", "--format", "restic"), (
            "it is like the second"
        )

    def test_says_so_over_the_api_at_first_and_after_a_move(self, second: dict[str, Any], tmp_path: Path) -> None:
        program = Program()
        made = program.post("repositories", second)
        self.check(" ".join(made.json()["warnings"]), second)
        moved = second | {"location": str(tmp_path / "moved")}
        changed = program.patch(f"repositories/{made.json()['id']}", {"location": moved["location"]})
        assert changed.status_code == 200, changed.content
        self.check(" ".join(changed.json()["warnings"]), moved)
        assert program.patch(f"repositories/{made.json()['id']}", {"name": "other"}).json()["warnings"] == []

    def test_says_so_of_a_fleet_file_also_where_the_secrets_of_the_first_are_gone(self, second: dict[str, Any]) -> None:
        StoredSecret.objects.filter(name="first").delete()
        [*_, text] = apply_fleet({"repositories": [second]}, "fleet.json").warnings
        self.check(text, second)
        assert text.startswith("repository second: ")
        assert "there is no stored secret first" in text

    def test_says_so_where_its_first_backup_is_left_to_make_it(self, second: dict[str, Any], tmp_path: Path) -> None:
        (tmp_path / "second").write_text("a file")
        row = Repository.objects.create(**second, encrypted=True, key="stored:first")
        [text] = Repositories().finish(row).failed
        assert "cannot be made" in text
        assert "data of both would be stored there twice" in text

    def test_is_no_repository_of_copies_of_what_does_not_answer(self, first: Repository, tmp_path: Path) -> None:
        """It would be like nothing for ever, and the copy cannot be made now anyway."""
        stored_secrets.store("second", "e" * 64)
        place = {"location": str(tmp_path / "second"), "format": "restic", "encrypted": True, "key": "stored:second"}
        for name in ("burnt", "second"):
            (tmp_path / name).mkdir()
        row = Repository.objects.create(name="second", **place)
        here, there = (locations.location_of(each).as_json() for each in (first, row))
        policy = {"newest": "", "again": [], "damaged": {}, "bandwidth": "", "zone": "UTC", "reserve": 0.0}
        order = {"location": here, "folder": "x", "target": there, "ours": asdict(locations.identity_of(row))}
        assert "there is no restic repository" in point_upkeep.copy_points(**order, **policy, made=False)["problem"]
        assert not (tmp_path / "second" / "restic" / "config").exists()


class TestAnAccountThatMayNotSetReferences:
    @pytest.fixture
    def program(self) -> Program:
        return Program(make_user(*MAY_EDIT))

    def test_makes_none_with_secrets_or_with_what_is_the_workers(self, program: Program) -> None:
        stored_secrets.store("cloud", PASSWORD)
        body = {"name": "x", "location": "bucket", "remote": S3, "secrets": SECRETS}
        assert "may not set where passwords are found" in str(program.post("repositories", body).json())
        body |= {"remote": S3 | {"env_auth": True}, "secrets": {}}
        assert "env_auth: your account may not" in str(program.post("repositories", body).json())

    def test_clears_them_when_it_points_the_repository_elsewhere(self, program: Program) -> None:
        row = Repository.objects.create(name="x", location="bucket", remote=S3, secrets=SECRETS)
        stored_secrets.store("cloud", PASSWORD)
        remote = S3 | {"endpoint": "https://elsewhere.example.org"}
        assert program.patch(f"repositories/{row.pk}", {"remote": remote}).json()["secrets"] == {}


def test_a_lost_secret_is_a_sentence() -> None:
    row = Repository(name="x", location="bucket", remote=S3, secrets=SECRETS)
    with pytest.raises(StorageFailed, match="repository x cannot be reached: there is no stored secret cloud"):
        locations.location_of(row)
    assert identity.digest_of("a" * 64) not in ("", "a" * 64)
