"""Trials of repositories at real servers, plain and encrypted."""

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engines import repository_process
from engines.at_repositories import probing, questions, sightings
from engines.at_repositories.work import Stop
from engines.restores import restore_process
from external.processes.orders import Order, give
from external.processes.programs import find_rclone
from external.processes.serving import Program
from storage import layout
from storage.places import identity, remotes
from storage.places.identity import Identity
from storage.places.location import RCLONE, RESTIC, Location
from storage.points.store import StorageStopped, Store
from tests.engines.peers import PASSWORD, new_host_key
from tests.engines.served import KEY, serving
from tests.programs import needs_restic
from tests.waiting import PATIENCE

OURS = Identity("11111111-1111-1111-1111-111111111111", "vault")


def tried(location: Location, key: str | None = None, **fields: Any) -> dict[str, Any]:
    ours = replace(OURS, encrypted=key is not None, key_digest=identity.digest_of(key))
    return probing.probe(location, ours, threading.Event(), **fields)


def test_a_password_is_hidden_as_rclone_reads_it() -> None:
    password = "p\"w'# \\ü"
    # what is hidden begins with random bytes: now and then with a dash
    reveal = (find_rclone(), "reveal", "--", remotes.obscure(password))
    assert subprocess.run(reveal, capture_output=True, check=True).stdout.decode() == f"{password}\n"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "key"), [("s3", KEY), ("sftp", None), ("webdav", KEY), ("webdav-other", None)])
def test_what_is_tried_leaves_nothing(kind: str, key: str | None, tmp_path: Path) -> None:
    with serving(kind, tmp_path / "served") as (settings, secrets, path):
        location = remotes.location_of(path, settings, secrets, key)
        found = tried(location, key)
        assert found["id"] == OURS.id
        assert found["notices"] == []
        assert [each for each in tmp_path.glob("served/**/*") if each.is_file()] == []
        assert PASSWORD not in repr(location)


@pytest.mark.parametrize("question", ["probe", "look_for", pytest.param("make_repository", marks=needs_restic)])
def test_a_stop_is_not_an_answer(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends the question, and no limit of time: nothing is known of the repository then."""
    monkeypatch.setattr(questions, "PROBE_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote = {"type": "s3", "provider": "Other", "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        form = RESTIC if question == "make_repository" else RCLONE
        key, ours = (KEY, replace(OURS, encrypted=True, key_digest=identity.digest_of(KEY)))
        where = remotes.location_of("bucket", remote | {"access_key_id": "me"}, {}, key, format=form).as_json()
        asked: dict[str, Callable[[], dict[str, Any]]] = {
            "probe": lambda: questions.probe(where, asdict(ours), take_over=False),
            "look_for": lambda: sightings.look_for(where, asdict(ours), True, {"s/daily": ["20260301T090000Z"]}, 0.0),
            "make_repository": lambda: questions.make_repository(where, asdict(ours)),
        }
        if question != "make_repository":  # it has no limit of time
            assert "has not answered" in str(asked[question]())
        monkeypatch.setattr(Stop, "_stopped", True)
        with pytest.raises(StorageStopped):
            asked[question]()


@pytest.mark.parametrize(
    ("program", "do"), [(repository_process.PROGRAM, "probe"), (restore_process.PROGRAM, "points")]
)
def test_a_process_that_is_stopped_ends_its_order_itself(program: Program, do: str) -> None:
    """It answers: one that SIGTERM kills gives no answer, and tidies nothing up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote = {"type": "s3", "provider": "Other", "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        where = remotes.location_of("bucket", remote | {"access_key_id": "me"}, {}, None).as_json()
        of_points = {"known": None, "folder": "nas-7/daily", "expected": None}
        facts = {"probe": {"ours": asdict(OURS), "take_over": False}, "points": of_points}[do]
        order = Order(program, do, {"location": where, **facts})
        stop = SimpleNamespace(is_set=lambda: order.signs > 0)
        with pytest.raises(StorageStopped):
            give(order, stop, silent_for=PATIENCE, grace=PATIENCE)


def test_what_restic_is_to_write_is_tried_by_it_in_a_directory_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = tried(remotes.location_of(str(tmp_path / "new"), {}, {}, KEY, format=RESTIC), KEY)
    assert (found["field"], "the program restic is not installed here" in found["problem"]) == ("format", True), found
    assert not (tmp_path / "new").exists()


def refusal(settings: dict[str, Any], secrets: dict[str, str], path: str) -> tuple[str, str]:
    found = tried(remotes.location_of(path, settings, secrets, None))
    return found["field"], found["problem"]


def test_what_is_wrong_is_said_with_what_to_do(tmp_path: Path) -> None:
    with serving("s3", tmp_path / "s3") as (settings, secrets, path):
        assert "refuses the credentials" in dict([refusal(settings, {"secret_access_key": "wrong"}, path)])["secrets"]
    assert "does not answer" in dict([refusal(settings, secrets, path)])["remote"]
    with serving("sftp", tmp_path / "sftp") as (settings, secrets, path):
        assert "refuses the credentials" in dict([refusal(settings, {"pass": "wrong"}, path)])["secrets"]
        other = settings | {"host_keys": new_host_key(tmp_path / "other-key")}
        assert "HOST KEY" in dict([refusal(other, secrets, path)])["remote"]
    assert not any(each.is_file() for each in (tmp_path / "sftp").rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["s3", "directory"])
def test_a_repository_that_is_not_ours_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    with contextlib.ExitStack() as serving_it:
        settings, secrets, path = {}, {}, str(tmp_path / "served")
        if kind == "s3":
            settings, secrets, path = serving_it.enter_context(serving(kind, tmp_path / "served"))
        plain = remotes.location_of(path, settings, secrets, None)
        crypt = remotes.location_of(path, settings, secrets, KEY)
        outside = Store(plain, threading.Event())
        theirs = Identity("2" * 36, "attic", encrypted=True, key_digest=identity.digest_of(KEY))
        identity.write(outside, theirs)
        assert "the repository attic of another installation" in tried(crypt, KEY)["problem"]
        assert tried(crypt, KEY, take_over=True)["id"] == theirs.id
        assert "is encrypted" in tried(plain, take_over=True)["problem"]
        lost = tried(crypt, "a" * 64, take_over=True)
        assert (lost["field"], "the key is not the one" in lost["problem"]) == ("key", True)
        identity.write(outside, replace(theirs, layout=layout.VERSION + 1))
        assert (
            f"layout version {layout.VERSION + 1}, and {layout.VERSION} is read here"
            in tried(crypt, KEY, take_over=True)["problem"]
        )
