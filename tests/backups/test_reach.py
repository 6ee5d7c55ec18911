"""An account that may change sources cannot reach passwords and folders that way, on any surface."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from external import special_addresses
from fleet.conditions import reach
from fleet.conditions.reach import guarded_addresses
from operations.finding import Look
from sources.models import Repository, Source
from tests.api.asking import Program, make_user
from tests.backups import stored_sources
from tests.backups.stored_sources import LAPTOP, SECRET
from tests.people import staff
from tests.sources.factories import HOST_KEY, make_source

laptop = stored_sources.laptop

pytestmark = pytest.mark.django_db

OTHER_HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINMS0X5nXEXBkq3+SWqMbuQ5w2QvUBJGiTYL0+Q3mFv7"
MAY_EDIT = ("add_source", "change_source", "view_source", "add_repository", "change_repository", "view_repository")
FOLDER = {"name": "folder", "kind": "local", "path": "/etc"}


def program(*more: str) -> Program:
    """A client of an account that may edit sources and repositories, and has `more` permissions."""
    return Program(make_user(*MAY_EDIT, *more))


class TestByTheApi:
    def test_a_reference_is_set_with_its_permission_only(self) -> None:
        refused = program().ask("POST", "sources", LAPTOP)
        assert refused.status_code == 422
        assert "may not set where passwords are found" in refused.content.decode()
        assert not Source.objects.exists()
        assert program("set_secret_of_source").ask("POST", "sources", LAPTOP).status_code == 201

    @pytest.mark.parametrize(
        ("change", "more", "left"),
        [
            ({"address": "203.0.113.9"}, (), ""),
            ({"port": 2222}, (), ""),
            ({"options": {"user": "root"}}, (), ""),
            ({"host_key": OTHER_HOST_KEY}, (), ""),
            ({"path": "/srv", "name": "anna"}, (), SECRET),
            ({"address": "203.0.113.9"}, ("set_secret_of_source",), SECRET),
        ],
    )
    def test_a_source_that_is_pointed_elsewhere_without_it_loses_its_password(
        self, laptop: Source, change: dict[str, Any], more: tuple[str, ...], left: str
    ) -> None:
        answer = program(*more).ask("PATCH", f"sources/{laptop.pk}", change)
        assert answer.status_code == 200
        laptop.refresh_from_db()
        assert answer.json()["secret"] == laptop.secret == left

    def test_so_it_is_with_the_secrets_of_a_remote_and_with_ways_of_the_worker(self) -> None:
        nas = {"type": "smb", "host": "nas.example", "user": "ann"}
        remote = {"name": "nas", "kind": "rclone", "options": nas, "secrets": {"pass": SECRET}}
        assert "may not set where" in program().ask("POST", "sources", remote).content.decode()
        pk = program("set_secret_of_source").ask("POST", "sources", remote).json()["id"]
        assert program().ask("PATCH", f"sources/{pk}", {"path": "family"}).json()["secrets"] == {"pass": SECRET}
        answer = program().ask("PATCH", f"sources/{pk}", {"options": nas | {"host": "203.0.113.9"}})
        assert (answer.status_code, answer.json()["secrets"]) == (200, {})
        cloud = {"type": "drive", "service_account_file": "/etc/key.json"}
        refused = program().ask("PATCH", f"sources/{pk}", {"options": cloud})
        assert (refused.status_code, "their own files" in refused.content.decode()) == (422, True)

    def test_folders_outside_the_roots_need_a_permission(self) -> None:
        refused = program().ask("POST", "sources", FOLDER)
        assert (refused.status_code, "below /home, /srv" in refused.content.decode()) == (422, True)
        assert program().ask("POST", "sources", FOLDER | {"path": "/srv/../etc"}).status_code == 422
        assert program().ask("POST", "sources", FOLDER | {"kind": "sqlite", "path": "/etc/shop.db"}).status_code == 422
        assert program().ask("POST", "sources", FOLDER | {"path": "/srv/files"}).status_code == 201
        assert program("use_any_folder").ask("POST", "sources", FOLDER | {"name": "etc"}).status_code == 201

    def test_so_do_files_of_certificates(self) -> None:
        """The answer would tell which files the workers can read."""
        shop = {"name": "shop", "kind": "postgresql", "address": "db.example", "path": "shop"}
        for file, more, status in (
            ("/etc/shadow", [], 422),
            ("/etc/shadow", ["use_any_folder"], 201),
            ("/etc/backupsched/ca.pem", [], 201),
        ):
            body = shop | {"name": f"shop {more}", "options": {"user": "backup", "sslrootcert": file}}
            assert program(*more).ask("POST", "sources", body).status_code == status

    def test_a_server_at_a_socket_that_goes_by_the_account_of_the_worker_needs_the_permission(self) -> None:
        options = {"user": "postgres"}
        for kind, address in (("postgresql", "/run/postgresql"), ("mariadb", "/run/mysqld/mysqld.sock")):
            shop = {"name": kind, "kind": kind, "address": address, "path": "payroll", "options": options}
            refused = program().ask("POST", "sources", shop)
            assert (refused.status_code, "their own accounts" in refused.content.decode()) == (422, True)
            tcp = shop | {"address": "db.example"}
            pk = program().ask("POST", "sources", tcp).json()["id"]
            assert program().ask("PATCH", f"sources/{pk}", {"address": address}).status_code == 422
            Source.objects.filter(pk=pk).update(address=address)
            for change in ({"path": "staff"}, {"options": {"user": "root"}}, {"port": 5433}):
                assert program().ask("PATCH", f"sources/{pk}", change).status_code == 422, change
            assert program().ask("PATCH", f"sources/{pk}", {"name": f"{kind} of ours"}).status_code == 200
            Source.objects.filter(pk=pk).update(secret=SECRET)
            assert program().ask("PATCH", f"sources/{pk}", {"path": "staff"}).status_code == 200
            refused = program().ask("PATCH", f"sources/{pk}", {"options": {"user": "root"}})
            assert refused.status_code == 422, "its secret would be cleared"
            may = program("set_secret_of_source")
            assert may.ask("POST", "sources", shop).status_code == 201
        two = {"name": "two", "kind": "postgresql", "address": "/run/postgresql,db.example", "path": "shop"}
        assert "contains a comma" in may.ask("POST", "sources", two | {"options": options}).content.decode()

    @pytest.mark.parametrize(
        "host", ["169.254.169.254", "[fe80::1]", "100.100.100.200", "metadata.google.internal", "[fd00:ec2::254]"]
    )
    def test_link_local_addresses_and_metadata_services_need_the_permission(self, host: str) -> None:
        plain = host.strip("[]")
        to_do: list[tuple[str, dict[str, Any]]] = [
            ("sources", {"kind": "webdav", "address": f"http://{host}/latest", "path": ""}),
            ("sources", {"kind": "postgresql", "address": plain, "path": "shop", "options": {"user": "backup"}}),
            ("sources", {"kind": "rclone", "options": {"type": "http", "url": f"http://{host}"}}),
            ("sources", {"kind": "rclone", "options": {"type": "smb", "host": plain}}),
            ("sources", {"kind": "rclone", "options": {"type": "s3", "provider": "Other", "endpoint": host}}),
            ("repositories", {"location": "x", "remote": {"type": "webdav", "url": f"http://{host}:8080"}}),
            ("repositories", {"location": "x", "remote": {"type": "sftp", "host": plain, "host_keys": HOST_KEY}}),
        ]
        for what, body in to_do:
            refused = program().ask("POST", what, {"name": "x", **body})
            assert (refused.status_code, "may not lead workers to" in refused.content.decode()) == (422, True), body
        answer = program("set_secret_of_source").ask("POST", "sources", {"name": "x", **to_do[0][1]})
        assert answer.status_code == 201
        assert program().ask("PATCH", f"sources/{answer.json()['id']}", {"path": "more"}).status_code == 200
        make_source(name="a share", kind="webdav", address="https://share.example:8443/dav")
        make_source(name="early", kind="rclone", address="", path="", options=to_do[2][1]["options"])
        with pytest.MonkeyPatch.context() as bounded:
            bounded.setattr(reach, "COUNT_TO", 2)  # what need not be examined takes no place of those
            found = [each.text for each in guarded_addresses.examine(Look(timezone.now()))]
        assert found == [f"early: {plain}", f"x: {plain}"]

    def test_loopback_needs_it_where_it_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        share = {"name": "x", "kind": "webdav", "path": ""}
        for number, host in enumerate(("localhost", "127.0.0.1", "[::1]")):
            body = share | {"address": f"http://{host}:8080", "name": f"x{number}"}
            assert program().ask("POST", "sources", body).status_code == 201
            with monkeypatch.context() as changed:
                changed.setattr(special_addresses, "loopback_is_open", False)
                refused = program().ask("POST", "sources", body | {"name": f"y{number}"})
                assert (refused.status_code, "loopback" in refused.content.decode()) == (422, True)

    def test_so_do_repositories(self, tmp_path: Any) -> None:
        body = {"name": "vault", "location": str(tmp_path / "vault")}
        assert program().ask("POST", "repositories", body).status_code == 422
        assert not Repository.objects.exists()
        assert program("use_any_folder").ask("POST", "repositories", body).status_code == 201


class TestInTheAdmin:
    def form(self, **changed: Any) -> dict[str, Any]:
        values = LAPTOP | {"option_user": "backup", "wake_address": "255.255.255.255", "wake_port": 9} | changed
        inlines = {"TOTAL_FORMS": 0, "INITIAL_FORMS": 0}
        return values | {f"assignments-{name}": value for name, value in inlines.items()}

    def test_a_reference_is_set_with_its_permission_only(self) -> None:
        page = staff(*MAY_EDIT).post("/admin/sources/source/add/", self.form())
        assert b"may not set where passwords are found" in page.content
        assert (
            staff(*MAY_EDIT, "set_secret_of_source").post("/admin/sources/source/add/", self.form()).status_code == 302
        )

    def test_a_source_that_is_pointed_elsewhere_without_it_loses_its_password_and_the_page_says_so(
        self, laptop: Source
    ) -> None:
        client: Client = staff(*MAY_EDIT)
        address = f"/admin/sources/source/{laptop.pk}/change/"
        page = client.post(address, self.form(address="203.0.113.9"), follow=True)
        assert b"Its secret was cleared" in page.content
        laptop.refresh_from_db()
        assert (laptop.address, laptop.secret) == ("203.0.113.9", "")

    def test_repositories_outside_the_roots_need_a_permission(self, tmp_path: Any) -> None:
        form = {"name": "vault", "format": "rclone", "location": str(tmp_path)}
        page = staff(*MAY_EDIT).post("/admin/sources/repository/add/", form)
        assert b"your account may name folders below" in page.content
        assert staff(*MAY_EDIT, "use_any_folder").post("/admin/sources/repository/add/", form).status_code == 302
