"""Files and manifests that are damaged in a copy, and come again where the first repository has them whole."""

from pathlib import Path

import pytest

from storage.points.copies import CopyResult
from tests.storage.copied_pairs import Pair


def test_a_damaged_manifest_of_the_newest_point_of_the_copy_comes_again_and_an_older_one_is_named(
    tmp_path: Path,
) -> None:
    pair = Pair.below(tmp_path)
    points = [pair.first.back_up({"a": text, "b": "x"}) for text in "12"]
    pair.copy()
    pair.second.manifest(points[-1]).write_bytes(b"no manifest")
    copied, places = pair.copy()
    assert (copied.new, copied.wrong, places) == (points[-1:], [], [])
    pair.check()
    pair.first.manifest(points[-1]).unlink()
    pair.second.manifest(points[-1]).write_bytes(b"no manifest")
    pair.first.back_up({"a": "3", "b": "x"})
    copied, places = pair.copy()
    assert ["look at its disk" in each for each in copied.wrong] == [True]
    assert [*copied.incomplete] == points[-1:]
    assert pair.second.restored(copied.new[0]) == {"a": "3", "b": "x"}


def damaged_there(pair: Pair) -> dict[str, list[str]]:
    pair.first.back_up({"a": "text", "c": "text"})
    point = pair.first.back_up({"a": "text", "b": "text", "c": "red"}, linked={"b": "a"})
    pair.copy()
    damaged = {path: pair.second.place(point, path) for path in "ac"}
    for each in damaged.values():
        each.write_text("t?")
    return {point: [str(each.relative_to(pair.second.files)) for each in damaged.values()]}


def test_what_is_damaged_in_the_copy_comes_again_where_the_first_one_has_it_whole(tmp_path: Path) -> None:
    pair = Pair.below(tmp_path)
    damaged = damaged_there(pair)
    _, places = pair.copy(damaged=damaged)
    assert sorted(places) == sorted(each for of_one in damaged.values() for each in of_one)
    pair.check()


@pytest.mark.parametrize("text", [None, "encrypted by an intruder", "tex?"])
def test_it_stays_as_it_is_where_the_first_one_has_lost_it_or_has_other_content(
    tmp_path: Path, text: str | None
) -> None:
    pair = Pair.below(tmp_path)
    damaged = damaged_there(pair)
    [places] = damaged.values()
    for each in pair.first.files.rglob("[ac]"):
        each.unlink() if text is None else each.write_text(text)
    assert pair.copy(damaged=damaged) == (CopyResult(points=pair.second.points()), [])
    assert {(pair.second.files / each).read_text() for each in places} == {"t?"}


def test_credentials_that_may_not_overwrite_are_named_and_keep_no_point_from_the_copy(tmp_path: Path) -> None:
    pair = Pair.below(tmp_path)
    damaged = damaged_there(pair)
    last = pair.first.back_up({"a": "text"})
    copied, _ = pair.copy(damaged=damaged, may_overwrite=False)
    assert copied.new == [last]
    assert ["credentials have to allow" in each for each in copied.wrong] == [True]
