"""The page of a source's backups in the admin: points, folders, versions, downloads, and asking for a restore."""

import io
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from backups.restores import downloads, process, requests
from fleet.admin import browsing
from jobs.handlers import registry
from jobs.models import Decision
from sources.models import Assignment, Restore
from storage import layout
from storage.points.manifests import Entry
from tests.backups.restores import browsed
from tests.backups.restores.browsed import content, look, page
from tests.fleet import driven_browser
from tests.sources.factories import make_assignment, make_source, policy_into
from tests.storage.building import ASSIGNMENT, Built, picture

client_of_staff = browsed.client_of_staff

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("made_by_hand")]

Browser = driven_browser.Browser
browser = driven_browser.browser


@pytest.fixture
def built(tmp_path: Path, settings: Any) -> Built:
    settings.VAR_DIR, settings.RESTORE_FOLDERS = tmp_path / "var", [tmp_path / "allowed"]
    built = Built(tmp_path / "built")
    policy = policy_into(built.folder / "repository", "disk", zone="Europe/Berlin")
    make_assignment(policy, make_source(name="nas", path=str(built.source)), directory=ASSIGNMENT)
    for name in ("docs/annual report.txt", "docs/2026/a & b <i>.txt", "photos/summer.jpg", "top.txt"):
        built.write(name, f"{name}, first")
    (built.source / "link").symlink_to("top.txt")
    os.symlink(b"caf\xe9", os.fsencode(built.source / "link-2"))
    built.back_up()
    built.write("top.txt", "second")
    built.back_up()
    built.write("photos/winter.jpg", "w" * 5000)
    built.back_up()
    return built


@pytest.mark.own_process
def test_a_person_browses_points_folders_and_versions(built: Built, client_of_staff: Client) -> None:
    top = look(client_of_staff)
    assert "Fri 2026-11-20 09:00:00" in top  # the newest, in Berlin
    assert "docs/</a>" in top
    assert "link → top.txt</a>" in top
    assert "link-2 → caf?</a>" in top
    assert "2023-11-14 23:13:2" in top, "in Berlin, as the points"
    assert "a &amp; b &lt;i&gt;.txt" in look(client_of_staff, path="docs/2026")
    assert "winter.jpg" not in look(client_of_staff, path="photos", point=built.points[1])
    versions = look(client_of_staff, path="top.txt")
    assert "Fri 2026-11-20 08:00:00 to Fri 2026-11-20 09:00:00" in versions
    assert "Fri 2026-11-20 07:00:00" in versions
    (built.folder / "repository" / layout.manifest_path(ASSIGNMENT, built.points[0])).write_bytes(b"damaged")
    versions = look(client_of_staff, path="top.txt")
    assert "Fri 2026-11-20 08:00:00 to Fri 2026-11-20 09:00:00" in versions, "whatever has become of others"
    assert f"{built.points[0]}" in versions[versions.index("Fri 2026-11-20 07:00:00") :]
    assert "there is no &#x27;dosc&#x27; in this point; it has &#x27;docs&#x27;" in look(client_of_staff, path="dosc")
    (built.folder / "repository").rename(built.folder / "elsewhere")
    assert "is not a directory here; is it mounted?" in look(client_of_staff)


def test_a_page_and_a_download_say_what_is_as_of_an_earlier_point_and_what_is_lacking(
    built: Built, client_of_staff: Client
) -> None:
    old = built.last["top.txt"]._replace(why="locked", as_of=built.points[1])
    lacking = Entry("docs/new", size=5, why="permission <denied>")
    closed = Entry("photos", "folder", why="stale file handle")
    built.back_up(excepted=[old, lacking, closed])
    top = look(client_of_staff)
    assert "as of Fri 2026-11-20 08:00:00: locked" in top
    assert "could not be listed: stale file handle" in top
    docs = look(client_of_staff, path="docs")
    assert "not in this backup: permission &lt;denied&gt;" in docs
    assert "path=docs%2Fnew&amp;what=download" not in docs
    for what in ({}, {"what": "download"}):
        assert "docs/new is not in this backup: permission &lt;denied&gt;." in look(
            client_of_staff, path="docs/new", **what
        )
    with tarfile.open(fileobj=io.BytesIO(content(client_of_staff.get(page(), {"what": "download"})))) as archive:
        named = archive.extractfile(downloads.NOT_RESTORED)
        assert named
        assert named.read().decode().splitlines() == [
            "not in this point: photos/: it could not be listed: stale file handle",
            "not in this point: docs/new: permission <denied>",
            "1 file as of 2026-11-20 07:00 UTC, since it could not be read or copied later: top.txt",
        ]
        assert "top.txt" in archive.getnames()


def test_a_file_and_a_folder_are_downloaded(built: Built, client_of_staff: Client, tmp_path: Path) -> None:
    answer = client_of_staff.get(page(), {"path": "top.txt", "point": built.points[0], "what": "download"})
    assert content(answer) == b"top.txt, first"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="top.txt"'
    answer = client_of_staff.get(page(), {"what": "download"})
    with tarfile.open(fileobj=io.BytesIO(content(answer))) as archive:
        archive.extractall(tmp_path / "to", filter="tar")
    assert {path: facts[:2] for path, facts in picture(tmp_path / "to").items()} == {
        path: facts[:2] for path, facts in picture(built.source).items()
    }
    assert Decision.objects.filter(what="downloaded").count() == 2
    assert [each.name for each in process.cache().parent.iterdir()] == ["trees"]


def test_older_versions_are_a_page_further_and_only_so_many_downloads_run_at_once(
    built: Built, client_of_staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "VERSIONS_PAGE", 2)
    monkeypatch.setattr(downloads, "_places", BoundedSemaphore(2))
    assert f"after={built.points[1]}" in look(client_of_staff, path="top.txt", what="versions")
    older = look(client_of_staff, path="top.txt", what="versions", after=built.points[1])
    assert "Fri 2026-11-20 07:00:00" in older
    assert "after=" not in older
    wanted = {"path": "top.txt", "what": "download"}
    answers = [client_of_staff.get(page(), wanted) for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 503]
    assert "downloads are under way here already" in answers[-1].content.decode()
    assert {content(each) for each in answers[:-1]} == {b"second"}
    assert content(client_of_staff.get(page(), wanted)) == b"second"


def test_restores_are_deleted_with_their_records(built: Built) -> None:
    for days in (1, 3, None):
        ended_at = days and datetime(2026, 11, days, tzinfo=UTC)
        facts = {"asked_at": datetime(2026, 11, 1, tzinfo=UTC), "ended_at": ended_at}
        Restore.objects.create(assignment=Assignment.objects.get(), point=built.points[0], to="folder", **facts)
    assert ("backups.restores.requests", "prune") in [(each.__module__, each.__qualname__) for each in registry.prunes]
    assert requests.prune(datetime(2026, 11, 2, tzinfo=UTC)) == 1
    assert Restore.objects.count() == 2


def test_a_restore_is_asked_for_where_it_is_looked_at(built: Built, client_of_staff: Client, tmp_path: Path) -> None:
    form = {"to": "folder", "target": "/etc"}
    answer = client_of_staff.post(f"{page()}?path=docs", form)
    assert "your account may name folders below" in answer.content.decode()
    answer = client_of_staff.post(f"{page()}?path=docs", form | {"target": str(tmp_path / "allowed/to")})
    restore = Restore.objects.get()
    assert answer.url == reverse("admin:sources_restore_change", args=[restore.pk])
    assert (restore.paths, restore.point, restore.to) == (["docs"], built.points[-1], "folder")
    shown = client_of_staff.get(answer.url).content.decode()
    assert "waiting" in shown
    assert "no worker is alive" in shown


@pytest.mark.own_process
@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_page_in_a_browser(built: Built, browser: driven_browser.Browser, tmp_path: Path) -> None:
    long = "n" * 246 + ".txt"
    built.write(f"{long[4:]}/{long}", "what stands beside it stays in sight")
    built.back_up()
    for path in (f"?path={long[4:]}", ""):
        browser.look(f"{page()}{path}")
        assert browser.wider_than_the_page() == 0
        assert browser.cut_off_in_tables() == []
    shots = Path(os.environ.get("SCREENSHOTS", tmp_path))
    browser.picture(shots / "browse.png")
    browser.look(f"{page()}?path=top.txt")
    assert "docs" not in browser.text_of("#way")
    browser.picture(shots / "versions.png")
    browser.look(f"{page()}?path=docs")
    browser.type("id_target", str(tmp_path / "allowed/to"))
    browser.click("#restore button")
    assert "docs" in browser.text_of("#content")
    browser.picture(shots / "restore.png")
    assert browser.complaints() == []
