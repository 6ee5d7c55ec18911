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
from fleet.files.apply import import_fleet
from fleet.repository_edits import Repositories
from jobs.conf import PROGRAM
from jobs.models import Decision
from sealing import stored_secrets
from sealing.models import StoredSecret
from sources.models import Repository
from storage import layout
from storage.places import identity, providers
from storage.places.location import of_directory
from storage.points.store import StorageFailed, Store
from tests.api.asking import Program, make_user
from tests.commands import command
from tests.engines.peers import PASSWORD
from tests.engines.served import serving
from tests.people import staff
from tests.programs import needs_restic

pytestmark = pytest.mark.django_db

MAY_EDIT = ("add_repository", "change_repository", "view_repository")
FTP = {"type": "ftp", "host": "nas", "user": "x"}
S3 = {"type": "s3", "provider": "Other", "endpoint": "https://s3.example.org", "access_key_id": "me"}
run, refused = command("repositories")
SECRETS = {"secret_access_key": "stored:cloud"}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The fields of a repository in a bucket of a real server, in `tmp_path/s3`."""
    stored_secrets.store("cloud", PASSWORD)
    with serving("s3", tmp_path / "s3") as (remote, _, path):
        yield {"name": "cloud", "location": path, "remote": remote, "secrets": SECRETS}


def problems_of(**fields: Any) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as found:
        Repositories().fill(Repository(), {"name": "x", "location": "bucket/backups"} | fields)
    problems: dict[str, list[str]] = found.value.message_dict
    return problems


class TestWhatRcloneTakes:
    @pytest.mark.parametrize(
        ("fields", "field", "text"),
        [
            ({"remote": {"type": "s4"}}, "remote", "no remote of type 's4'; did you mean s3"),
            ({"remote": S3 | {"endpont": "x"}}, "remote", "no option 'endpont'; did you mean endpoint"),
            ({"remote": S3 | {"secret_access_key": "x"}}, "remote", "secret_access_key is a secret"),
            ({"remote": {"type": "alias", "remote": "/etc"}}, "remote", "type alias keeps nothing itself"),
            ({"remote": {"type": "local"}}, "remote", "name it as one, not as a remote"),
            ({"remote": {"type": "hdfs", "namenode": "x:8020"}}, "remote", "sends rclone on to others"),
            ({"remote": FTP, "secrets": {"pass": "stored:x"}}, "secrets", "sends its password in clear (FTP without"),
            ({"remote": FTP | {"plaintext": "yes"}}, "remote", "plaintext takes allowed only"),
            ({"remote": {"type": "rest", "url": "http://x", "user": "x"}, "format": "restic"}, "remote", "in clear"),
            ({"remote": {"type": "webdav", "url": "https://x", "bearer_token_command": "id"}}, "remote", "a program"),
            ({"remote": {"type": "sftp", "host": "x", "ssh": "id"}}, "remote", "would run a program"),
            ({"remote": {"type": "sftp", "host": "x"}}, "remote", "must show a known host key"),
            ({"remote": {"type": "webdav", "user": "x"}}, "secrets", "url is missing"),
            ({"remote": S3, "secrets": {"token": "stored:x"}}, "secrets", "has no option 'token'"),
            ({"remote": S3, "secrets": {"secret_access_key": "x"}}, "secrets", "must say where the password is found"),
            ({"remote": S3, "secrets": SECRETS}, "secrets", "there is no stored secret cloud"),
            ({"remote": S3, "location": "../x"}, "location", "must not hold '..'"),
            ({"location": "backups"}, "location", "is not an absolute path"),
            ({"location": "/srv/backups", "key": "stored:x"}, "key", "is that of an encrypted repository"),
        ],
    )
    def test_is_what_rclone_itself_says(self, fields: dict[str, Any], field: str, text: str) -> None:
        assert text in "; ".join(problems_of(**fields)[field])


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
        report = import_fleet({"repositories": [cloud | {"encrypted": True}]}, "fleet.json")
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
    """Equal data lie in both then, as the person who makes it reads."""

    @pytest.fixture(autouse=True)
    def first(self, tmp_path: Path) -> Repository:
        stored_secrets.store("first", "f" * 64)
        place = {"location": str(tmp_path / "burnt"), "format": "restic", "encrypted": True, "key": "stored:first"}
        return Repository.objects.create(name="first", **place)

    @pytest.fixture
    def second(self, tmp_path: Path) -> dict[str, Any]:
        return {"name": "second", "location": str(tmp_path / "second"), "format": "restic"}

    def check(self, text: str, second: dict[str, Any]) -> None:
        assert "since first did not say how it does: " in text
        assert f"`{PROGRAM} repositories remove second`, delete what lies in {second['location']}, and" in text

    def test_says_so_by_the_command_and_not_where_it_is_there(self, second: dict[str, Any], tmp_path: Path) -> None:
        loud, _ = command("repositories", with_errors=True)
        self.check(loud("add", second["name"], second["location"], "--format", "restic"), second)
        row = Repository.objects.get(name="second")
        assert not any(Repositories().finish(row))
        Repository.objects.filter(name="first").delete()
        assert "its own" not in loud("add", "third", tmp_path / "third", "--format", "restic"), "it is like the second"

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
        [*_, text] = import_fleet({"repositories": [second]}, "fleet.json").warnings
        self.check(text, second)
        assert text.startswith("repository second: ")
        assert "there is no stored secret first" in text

    def test_says_so_where_its_first_backup_is_left_to_make_it(self, second: dict[str, Any], tmp_path: Path) -> None:
        (tmp_path / "second").write_text("a file")
        row = Repository.objects.create(**second, encrypted=True, key="stored:first")
        [text] = Repositories().finish(row).failed
        assert "cannot be made" in text
        assert "what first has, too, would lie there twice" in text

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


def test_what_lies_on_one_server_does_not_overlap() -> None:
    Repository.objects.create(name="x", location="bucket/backups", remote=S3, secrets=SECRETS)
    stored_secrets.store("cloud", PASSWORD)
    fields = {"remote": S3 | {"region": "eu"}, "secrets": SECRETS, "location": "bucket"}
    assert "repository x" in problems_of(**fields)["location"][0]
    elsewhere = fields | {"remote": S3 | {"endpoint": "http://127.0.0.1:1"}}
    assert "does not answer" in problems_of(**elsewhere)["remote"][0]


def test_a_lost_secret_is_a_sentence() -> None:
    row = Repository(name="x", location="bucket", remote=S3, secrets=SECRETS)
    with pytest.raises(StorageFailed, match="repository x cannot be reached: there is no stored secret cloud"):
        locations.location_of(row)
    assert identity.digest_of("a" * 64) not in ("", "a" * 64)


def test_each_type_that_rclone_lists_is_used_or_refused_with_a_reason() -> None:
    """One that a newer rclone adds fails here, until it is decided about."""
    listed = providers.providers()
    refused = {}
    for kind in listed:
        try:
            providers.options_of({"type": kind})
        except ValueError as error:
            refused[kind] = str(error)
    assert set(listed) - set(refused) == providers.REACHABLE == set(providers.titles())
    made_of_others = {"alias", "archive", "cache", "chunker", "combine", "compress", "crypt", "hasher", "union"}
    assert set(refused) == made_of_others | {"local", "memory", "hdfs", "storj", "tardigrade"}
    assert "sends rclone on to others" in refused["tardigrade"]
    assert not any("is not known" in text for text in refused.values())


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"layout": ' * 50_000, '{"layout": [1]}', "\x00", '{"layout":1e999}']
)
def test_a_repository_json_of_another_shape_is_a_sentence(content: str, tmp_path: Path) -> None:
    (tmp_path / layout.REPOSITORY).write_text(content)
    with pytest.raises(identity.RepositoryRefused, match=r"cannot be read|has layout version"):
        identity.read(Store(of_directory(tmp_path), threading.Event()))
