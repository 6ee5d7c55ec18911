"""Files that a share lists under other names than it was given."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from urllib.parse import unquote, urlsplit

import pytest

from engines.at_repositories.probing import IMPATIENT
from storage.places import remotes
from storage.points import reading
from storage.points.store import StorageFailed, Store
from tests.engines.peers import USER, loopback_address
from tests.engines.redirecting import Server, server
from tests.engines.webdav_shares import LISTED, entry
from tests.storage.repositories import encrypted

FOLDER, AS_GIVEN, LISTED_AS, TEXT = "vault", "a:b", "a_b", "two"


@pytest.fixture
def share() -> Iterator[Server]:
    """A share that finds `a:b` by its name, and lists it as `a_b`."""
    with server(loopback_address()) as found:
        found.files = {"a%3Ab": TEXT}
        yield found


def name_in(path: str) -> str:
    return unquote(urlsplit(path).path).strip("/").removeprefix(FOLDER).strip("/")


def store_at(share: Server, missing: int = 404) -> Store:
    """`missing`: the status for a name that the share does not have."""

    def answer(method: str, path: str) -> tuple[int, str] | None:
        name = name_in(path)
        if method == "PROPFIND" and name == AS_GIVEN:
            return 207, LISTED.format(entry(f"{FOLDER}/a%3Ab", len(TEXT)))
        if method == "PROPFIND" and not name:
            return 207, LISTED.format(entry(FOLDER, None) + entry(f"{FOLDER}/{LISTED_AS}", len(TEXT)))
        return (missing, "") if method == "PROPFIND" else None

    share.fails = answer
    settings = {"type": "webdav", "url": share.url, "vendor": "other", "user": USER}
    location = remotes.location_of(FOLDER, settings, {"pass": "secret"}, None)
    return Store(replace(location, environment={**location.environment, **IMPATIENT}), Event())


def asked_by_name(share: Server) -> list[str]:
    names = (name_in(path) for method, path, _ in share.asked if method == "PROPFIND")
    return [each for each in names if each]


def test_a_name_is_looked_up_only_where_that_is_asked_for(share: Server) -> None:
    store = store_at(share)
    assert store.sizes("", [AS_GIVEN, "gone"]) == {}
    assert asked_by_name(share) == []
    assert store.sizes("", [AS_GIVEN, "gone"], by_name=True) == {AS_GIVEN: 3}
    assert sorted(asked_by_name(share)) == [AS_GIVEN, "gone"]
    assert store.read("", [AS_GIVEN, "gone"])[0].keys() == {AS_GIVEN}


@pytest.mark.parametrize("status", [401, 403, 423])
def test_a_file_that_the_share_does_not_show_by_name_is_missing(share: Server, status: int) -> None:
    store = store_at(share, status)
    assert store.sizes("", [AS_GIVEN, "gone"], by_name=True) == {AS_GIVEN: 3}
    assert (store.read("", [AS_GIVEN, "gone"])[0].keys(), store.read("", ["gone"])) == ({AS_GIVEN}, ({}, {}))


def test_a_share_that_fails_shows_nothing_about_a_file(share: Server) -> None:
    with pytest.raises(StorageFailed, match="503"):
        store_at(share, 503).sizes("", ["gone"], by_name=True)


def test_once_none_of_a_part_is_there_the_others_are_not_asked_for(share: Server, monkeypatch) -> None:
    monkeypatch.setattr(reading, "OF_A_LOOK", 2)
    assert store_at(share).sizes("", [f"gone {number}" for number in range(6)], by_name=True) == {}
    assert sorted(asked_by_name(share)) == ["gone 0", "gone 3"]
    share.asked.clear()
    found = store_at(share).sizes("", [AS_GIVEN, *(f"gone {number}" for number in range(5))], by_name=True)
    assert (found, len(asked_by_name(share))) == ({AS_GIVEN: 3}, 4)


def test_no_encrypted_name_is_looked_up(share: Server) -> None:
    store = store_at(share)
    assert not encrypted(store.location).may_rename
    assert not replace(store.location, environment={"RCLONE_CONFIG_BASE_TYPE": "s3"}).may_rename
    assert store.location.may_rename
