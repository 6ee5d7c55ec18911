"""A manifest that is cut, flipped, foreign or gone: it is named, and every other point restores and stays."""

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import layout
from storage.places import remotes
from storage.places.location import of_directory
from storage.points import amiss, manifests, own_names, removal, runs
from storage.points.compared_files import ComparedFiles
from storage.points.entries import Entry, excepted, is_readable
from storage.points.manifests import ManifestDamaged
from storage.points.store import StorageFailed, Store
from storage.points.trees import opened, versions_of
from tests.storage import other_accounts
from tests.storage.other_accounts import WORKER, as_another, needs_root
from tests.storage.played_history import points_of
from tests.storage.played_runs import ASSIGNMENT, Played
from tests.storage.stepping import stepped

Damage = Callable[[bytes], bytes | None]
home = other_accounts.home

FOREIGN = (
    b"", b"[1]", b"null", b"\xff\xfe", b"[" * 5000, b'{"path":5}', b'{"path":"a"', b'{"path":"c","size":"1"}',
    b'{"path":"c","size":1e400}', b'{"path":"c","size":' + b"9" * 30 + b"}", b'{"path":"c","size":true}',
    b'{"path":"c","kind":["file"]}', b'{"path":"c","kind":"door"}', b'{"path":"c","mode":"x"}', b'{"path":"c","x":1}',
    b'{"path":"../../c"}', b'{"path":"c/../.."}', b'{"path":"/c"}', b'{"path":"c//d"}', b'{"path":"c\\u0000"}',
    b'{"path":"c","folder":"x"}', b'{"path":"c","folder":"20261101T065755Z","stored":"../c"}',
    b'{"path":"c","digest":7}', b'{"path":"c","target":{}}', b'{"path":"!"}', b'{"format":1}', b'{"sha256":"x"}',
)  # fmt: skip


def resealed(data: bytes, line: bytes, at: int) -> bytes:
    """With one line more, and a digest that is right."""
    *lines, trailer = gzip.decompress(data).splitlines()
    lines.insert(1 + at % len(lines), line)
    body = b"".join(each + b"\n" for each in lines)
    facts = json.loads(trailer)
    facts |= {"files": facts["files"] + 1, "sha256": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + json.dumps(facts).encode() + b"\n")


def flipped(data: bytes, at: int) -> bytes:
    place = at % (len(data) * 8)
    return data[: place // 8] + bytes([data[place // 8] ^ 1 << place % 8]) + data[place // 8 + 1 :]


damages: st.SearchStrategy[Damage] = st.one_of(
    st.just(lambda data: None),
    st.integers(0, 999).map(lambda at: lambda data: data[: at % len(data)]),
    st.integers(0, 9999).map(lambda at: lambda data: flipped(data, at)),
    st.binary(max_size=99).map(lambda other: lambda data: other),
    st.tuples(st.sampled_from(FOREIGN), st.integers(0, 9)).map(lambda how: lambda data: resealed(data, *how)),
    st.sampled_from(FOREIGN).map(lambda line: lambda data: gzip.compress(line + b"\n" + gzip.decompress(data))),
)
trees = st.dictionaries(st.sampled_from("abdef"), st.sampled_from("xyz"), min_size=1)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(trees, min_size=3, max_size=6), damages, st.integers(0, 5), st.sets(st.integers(0, 5)))
def test_one_is_named_and_all_other_points_restore_and_stay(
    story: list[dict[str, str]], damage: Damage, which: int, goes: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        played = Played(Path(folder))
        names = [played.back_up(tree) for tree in story]
        damaged = names[which % len(names)]
        file = played.root / layout.manifest_path(ASSIGNMENT, damaged)
        whole = [*manifests.read(file)]
        if (data := damage(file.read_bytes())) is None:
            file.unlink()
        else:
            file.write_bytes(data)
        is_damaged = data is not None and is_named(played, file, damaged, whole)
        chosen = points_of(played, goes)
        stay = [name for name in names if name not in chosen]
        others = {name: played.restored(name) for name in names if name != damaged}
        try:
            found = removal.remove(stepped(played.root), ASSIGNMENT, chosen, stay=stay)
        except StorageFailed:
            assert data is None
            assert len(played.points()) == len(names) - 1
        else:
            assert {*found.present} >= {*stay} - ({damaged} if data is None else set())
            assert {*found.damaged} <= ({damaged} if is_damaged else set())
            if data is None and damaged in stay:
                assert found.points == ()
        for name in played.points():
            if name != damaged:
                assert played.restored(name) == others[name] == played.expected[name]


def is_named(played: Played, file: Path, point: str, whole: list[manifests.Entry]) -> bool:
    """True if its reader reports that it is damaged; else it is as it was. The others look at it as they may."""
    store = Store(of_directory(played.root), Event())
    cache = played.root / "cache"
    for path in ("a", "c"):
        with suppress(ManifestDamaged):
            versions_of(store, ASSIGNMENT, [point], path, cache)
    try:
        assert [*manifests.read(file)] == whole
        own_names.check_is_of(file, point)  # which a flipped bit may have changed
    except ManifestDamaged:
        with pytest.raises(ManifestDamaged), opened(store, ASSIGNMENT, point, cache):
            pass
        return True
    with opened(store, ASSIGNMENT, point, cache) as tree:
        assert [*tree.below("")] == whole
    return False


@pytest.mark.parametrize("attributes", [65_000, 65_380])
def test_an_exception_is_never_longer_than_a_reader_takes(attributes: int) -> None:
    old = Entry("a", folder="20261101T065755Z", attributes={"user.a": "A" * attributes})
    assert is_readable(old)
    kept = excepted(Entry("a"), old, "why " * 125, "20261101T065755Z")
    assert is_readable(kept)
    assert (kept.place, bool(kept.why)) == (old.place, True)


SEALED: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda data: flipped(data, 1000),
    "emptied by a power cut": lambda data: b"",
    "another kind of file": lambda data: flipped(data, 0),
    "cut within the header of a block": lambda data: data[:40],
}


def test_what_an_encrypted_repository_has_lost_of_a_file_is_named_and_keeps_nothing_else_back(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    store = Store(remotes.location_of(str(tmp_path / "vault"), {}, {}, "the key"), Event())
    point, note = "20261121T060000Z", f"20261121T060000Z.{'0' * 16}{layout.AMISS}"
    (content := tmp_path / "content").write_bytes(bytes(2000))
    store.put(content, layout.manifest_path(ASSIGNMENT, point))
    store.put(content, runs.mark_path(ASSIGNMENT, point))
    store.put(content, f"{ASSIGNMENT}/{layout.MANIFESTS}/{note}")
    compared = f"{point}.{'0' * 16}{layout.COMPARED}"
    store.put(content, f"{ASSIGNMENT}/{layout.MANIFESTS}/{compared}")
    sealed = {each: each.read_bytes() for each in tmp_path.glob("vault/**/*") if each.is_file()}
    assert len(sealed) == 4
    for damage in SEALED.values():
        for each, whole in sealed.items():
            each.write_bytes(damage(whole))
        with pytest.raises(ManifestDamaged, match=f"the manifest of point {point} cannot be read: the repository"):
            store.any_manifest(ASSIGNMENT, point, tmp_path / "manifest")
        ComparedFiles(store, ASSIGNMENT).read([compared], [])  # which only saves time
    with runs.marked(store, ASSIGNMENT, point) as found:
        assert found is None
    assert amiss.noted(store, ASSIGNMENT, [note]) is None


@needs_root
def test_a_manifest_that_this_account_may_not_read_keeps_no_other_point_back(home: Path) -> None:
    played = Played(home / "played")
    names = [played.back_up({"a": text, text: text}) for text in "xyz"]
    for path in (home, *home.rglob("*")):
        os.chown(path, WORKER, WORKER)
    (played.root / layout.manifest_path(ASSIGNMENT, names[1])).chmod(0)

    def look() -> list[str]:
        store = Store(of_directory(played.root), Event())
        try:
            store.any_manifest(ASSIGNMENT, names[1], home / "manifest")
        except ManifestDamaged as error:
            return [str(error), *removal.remove(stepped(played.root), ASSIGNMENT, names[:1]).damaged]
        return []

    point, why = as_another(look)
    assert point == names[1]
    assert f"{point} cannot be read: " in why
    assert "permission denied" in why
    assert played.points() == names
