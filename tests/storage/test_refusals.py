"""Refusals of single files, and of all, by the messages about them."""

from collections.abc import Sequence
from contextlib import suppress

import pytest

from storage.points.entries import Entry
from storage.points.refusals import Refusals, is_lost
from storage.points.store import StorageFailed


@pytest.mark.parametrize(
    "why",
    [
        "open /mnt/quota/run/timeout/a: permission denied",
        'PUT "http://nas/mnt/quota/%C3%A9": locked',
        "550 timeout: not possible",
        '"timeout": not possible',
    ],
)
def test_words_in_paths_do_not_concern_all_files(why: str) -> None:
    refusals, reasons = Refusals(dict, tuple, tuple, ["/mnt/quota"]), {"run/timeout/a": why, "run/timeout/b": why}
    assert refusals.judged(reasons) == reasons
    with pytest.raises(StorageFailed, match="disk quota exceeded"):
        refusals.judged({"a": f"{why}: disk quota exceeded"})


@pytest.mark.parametrize(
    "why",
    [
        "multipart upload corrupted: Etag differ: expecting 5f but got 6e",
        "corrupted on transfer: md5 hashes differ src 5f vs dst 6e",
        "open /mnt/run/truncated/a: permission denied",  # which is not lost in the first repository
    ],
)
def test_neither_the_size_of_an_altered_file_nor_a_word_in_its_path_makes_it_whole(why: str) -> None:
    entry = Entry("truncated/a", size=3, folder="run")

    def arrived(entries: Sequence[Entry]) -> list[str]:
        return [] if "open" in why else [each.place for each in entries]

    refusals = Refusals(lambda entries, *how: {each.place: why for each in entries}, arrived, tuple)
    assert [*refusals.bring([entry])] == [entry.place]


@pytest.mark.parametrize("also", ["elsewhere/a", "run/other", "run/a.0123abcd.rclone-partial"])
def test_an_altered_file_is_noted_before_an_error_about_all_ends_the_copy(also: str) -> None:
    noted, why = list[str](), {"run/a": "corrupted on transfer: sizes differ", also: "no space left on device"}
    refusals = Refusals(lambda entries, *how: why, lambda entries: (), tuple, on_altered=noted.extend)
    with suppress(StorageFailed):
        refusals.bring([Entry(each, size=3, folder="run") for each in ("a", "b")])
    assert noted == ["run/a"]


@pytest.mark.parametrize(
    ("why", "lost"),
    [
        ("mkdir /srv/copy/nas-7: input/output error", False),
        ("open /mnt/x/a.0123abcd.rclone-partial: input/output error", False),
        ("read /srv/copy of old/nas-7/files/run/a: input/output error", True),
        ("not an encrypted file - bad magic string", True),
    ],
)
def test_a_file_is_lost_if_the_first_repository_cannot_read_it(why: str, lost: bool) -> None:
    assert is_lost(why, "/srv/copy") is lost
