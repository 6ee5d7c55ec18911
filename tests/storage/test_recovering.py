"""`backupsched recover`: the scheduler is gone, and the repository is all that is left."""

import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from storage import layout
from storage.places import remotes
from storage.recover import program as recovering
from tests.engines import peers
from tests.storage.building import ASSIGNMENT, Built, picture
from tests.storage.recovering import ended, recover, started
from tests.waiting import eventually


@pytest.fixture
def built(tmp_path: Path) -> Built:
    built = Built(tmp_path / "built")
    built.write("docs/a", "first", 0o600)
    built.back_up()
    built.write("docs/a", "second")
    (built.source / "link").symlink_to("docs/a")
    built.back_up()
    return built


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The output, in this process: its start takes a third of a second."""

    def said(*arguments: object, code: int = 0) -> str:
        try:
            ending = recovering.main([*map(str, arguments)])
        except SystemExit as end:  # of its parser
            ending = int(end.code or 0)
        assert ending == code
        return "".join(capsys.readouterr())

    return said


@pytest.fixture
def refused(said: Callable[..., str]) -> Callable[..., str]:
    """The output when it ends with code 2."""
    return partial(said, code=2)


def test_a_repository_alone_yields_identical_bytes(built: Built, tmp_path: Path) -> None:
    out = recover(built.folder / "repository", "--to", tmp_path / "to")
    recover(built.folder / "repository", "--source", "nas", "--at", "2026-11-20T07:30", "--to", tmp_path / "first")

    assert picture(tmp_path / "to") == picture(built.source)
    assert (tmp_path / "first/docs/a").read_text() == "first"
    assert "nas under nightly as of 2026-11-20 08:00:00 +0100 (point 20261120T070000Z)" in out


@pytest.mark.parametrize("what", ["link", "pipe", "socket"])
def test_what_is_no_manifest_keeps_nothing_else_back(
    what: str, built: Built, tmp_path: Path, said: Callable[..., str]
) -> None:
    """In its place, or under the name of a later point."""
    place = Path(built.location.at(layout.manifest_path(ASSIGNMENT, "20261120T080000Z")))
    match what:
        case "link":
            place.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(place.parent):
                server.bind(place.name)
    repository = built.folder / "repository"
    assert "nas under nightly" in said(repository, "--list")
    assert "nothing was read" in (newest := said(repository, "--to", tmp_path / "newest", code=1))
    assert f"--at {built.points[-1]}" in newest
    said(repository, "--at", built.points[-1], "--to", tmp_path / "to")
    assert picture(tmp_path / "to") == picture(built.source)


def test_a_manifest_that_is_damaged_keeps_nothing_else_back(
    built: Built, tmp_path: Path, said: Callable[..., str]
) -> None:
    repository, (first, last) = built.folder / "repository", built.points
    shutil.copytree(repository / ASSIGNMENT, repository / "anna-2/nightly")
    (repository / layout.manifest_path(ASSIGNMENT, last)).write_bytes(b"damaged")
    assert f"{ASSIGNMENT}: nas under nightly" in said(repository, "--list")
    listed = said(repository, "--to", tmp_path / "to", code=1)
    assert f"{ASSIGNMENT}: manifest {last}.jsonl.gz is damaged" in listed
    assert f"--at {first}" in listed
    assert picture(tmp_path / "to/anna-2/nightly") == picture(built.source)
    said(repository, "--source", ASSIGNMENT, "--at", first, "--to", tmp_path / "first")
    assert (tmp_path / "first/docs/a").read_text() == "first"
    (repository / layout.manifest_path(ASSIGNMENT, first)).write_bytes(b"")
    assert f"{ASSIGNMENT}: {ASSIGNMENT}\n{last}" in said(repository, "--list"), "nothing says whose it is"


@pytest.mark.parametrize("text", [None, b"", b"{}"], ids=["lost", "empty", "says nothing"])
def test_what_a_repository_says_of_itself_may_be_lost(
    built: Built, tmp_path: Path, said: Callable[..., str], text: bytes | None
) -> None:
    repository = built.folder / "repository"
    (repository / layout.REPOSITORY).unlink()
    if text is not None:
        (repository / layout.REPOSITORY).write_bytes(text)
    out = said(repository, "--to", tmp_path / "to")
    assert picture(tmp_path / "to") == picture(built.source)
    assert ("its repository.json cannot be read; this continues without it" in out) is (text is not None)


def test_a_target_without_a_name_is_not_the_folder_in_which_it_runs(built: Built, refused: Callable[..., str]) -> None:
    assert "name a folder: this is empty" in refused(built.folder / "repository", "--to", "")


@pytest.mark.parametrize("option", ["--at", "--path", "--source"])
def test_an_option_that_is_empty_does_not_mean_all_or_the_newest(
    built: Built, tmp_path: Path, refused: Callable[..., str], option: str
) -> None:
    assert f"{option}: name " in refused(built.folder / "repository", "--to", tmp_path / "to", option, "")
    assert not (tmp_path / "to").exists()


def test_it_lists_points_and_folders(built: Built, said: Callable[..., str]) -> None:
    rows = json.loads(said(built.folder / "repository", "--list", "--json"))
    assert [(row["assignment"], row["point"]) for row in rows] == [(ASSIGNMENT, each) for each in built.points[::-1]]
    assert "docs/a" in said(built.folder / "repository", "--list", "--path", "docs")


def test_what_cannot_be_is_a_sentence_and_writes_nothing(
    built: Built, tmp_path: Path, refused: Callable[..., str]
) -> None:
    repository, to = built.folder / "repository", ("--to", tmp_path / "to")
    assert "is not a folder here; name the one that holds RECOVER.txt" in refused(tmp_path / "none", "--list")
    assert "holds no point; is it the folder that holds RECOVER.txt?" in refused(tmp_path, "--list")
    assert "no source 'nsa'; there is nas-1/nightly" in refused(repository, "--source", "nsa", *to)
    assert "the first one is 20261120T060000Z, of 2026" in refused(repository, "--at", "2026-11-19", *to)
    assert "there is no 'dosc' in this point; it has 'docs'" in refused(repository, "--path", "dosc", *to)
    assert "is in the repository" in refused(repository, "--to", repository / "to")
    for version, says in (
        (1, "layout version 1, from before the first release"),
        (3, "layout version 3, and 2 is read"),
    ):
        (repository / layout.REPOSITORY).write_text(json.dumps({"layout": version, "id": "x", "name": "disk"}))
        assert says in refused(repository, *to)
    assert not (tmp_path / "to").exists()
    assert not (repository / "to").exists()


def test_an_encrypted_repository_needs_its_key(tmp_path: Path, refused: Callable[..., str]) -> None:
    built = Built(tmp_path / "built", key="correct horse", digests=False)
    built.write("docs/a", "secret")
    built.back_up()
    repository, to = built.folder / "repository", tmp_path / "to"
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("correct horse\n")
    wrong.write_text("battery staple\n")

    assert "name the file that holds its key with --key-file" in refused(repository, "--to", to)
    assert "is not that of the repository disk" in refused(repository, "--key-file", wrong, "--to", to)
    gone = tmp_path / "gone"
    assert f"the key file {gone} cannot be read: No such" in refused(repository, "--key-file", gone, "--list")
    wrong.write_text("\n")
    assert f"{wrong} holds no key: it is empty" in refused(repository, "--key-file", wrong, "--to", to)
    assert not to.exists()
    recover(repository, "--key-file", right, "--to", to)
    assert picture(to) == picture(built.source)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_where_it_goes_on_and_its_caller_keeps_its_own_handlers(
    number: signal.Signals, tmp_path: Path, refused: Callable[..., str]
) -> None:
    built = Built(tmp_path / "built", key="correct horse", digests=False)
    built.back_up()
    os.mkfifo(key := tmp_path / "key")
    process = started(built.folder / "repository", "--key-file", key, "--to", tmp_path / "to")

    def has_ended() -> bool:
        with suppress(OSError), os.fdopen(os.open(key, os.O_WRONLY | os.O_NONBLOCK), "w") as pipe:
            os.mkfifo(next_one := tmp_path / "next")  # it reads its key several times, each time from another pipe
            next_one.rename(key)
            process.send_signal(number)  # it waits for its key
            pipe.write("correct horse")
        return process.poll() is not None

    eventually(has_ended)
    assert "stopped; the same command continues where it was" in ended(process, 1)
    assert not (tmp_path / "to").exists()
    before = signal.getsignal(number)
    refused(tmp_path, "--list")
    assert signal.getsignal(number) is before


@pytest.mark.slow
def test_a_repository_on_a_remote_is_named_as_rclone_calls_it(built: Built, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(peers.PASSWORD)
    with peers.sftp_host(built.folder / "repository") as host:
        remote = {"type": "sftp", "host": host.address, "port": host.port, "user": peers.USER,
                  "host_keys": host.host_key, "pass": f"@{tmp_path / 'password'}"}  # fmt: skip
        options = (f"--remote={name}={value}" for name, value in remote.items())
        recover("/", *options, "--to", tmp_path / "to")
        given = remote | {"pass": remotes.obscure(peers.PASSWORD)}
        environment = {f"RCLONE_CONFIG_BASE_{name.upper()}": str(value) for name, value in given.items()}
        recover("base:/", "--to", tmp_path / "too", **environment)
    assert picture(tmp_path / "to") == picture(tmp_path / "too") == picture(built.source)
