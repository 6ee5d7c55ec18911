"""What is done quickly for a hundred thousand files has the results of the plain rule."""

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.rclone.comparing import BETWEEN_LOOKS, Comparison
from engines.rclone.listing import listed_of
from storage.points.bounds import AT_LEAST, LONGEST_LINE, OutOfBounds, lines_of
from storage.points.entries import LEADS_ELSEWHERE, Entry, from_values, leads_elsewhere
from storage.points.manifests import Line
from storage.points.sorted_items import SortedItems
from storage.points.store import StorageStopped


@given(st.text(alphabet="./a\n\0é\ud800", max_size=6))
def test_a_path_that_leads_elsewhere_is_refused_by_its_first_look_as_by_the_expression(path: str) -> None:
    assert leads_elsewhere(path) is (LEADS_ELSEWHERE.search(path) is not None)


@given(
    st.lists(st.sampled_from([b"", b"a", b"\r", b"b" * 40_000, b"c" * (LONGEST_LINE - 1)]), max_size=6), st.booleans()
)
def test_lines_come_as_they_were_written_wherever_a_block_ends(lines: list[bytes], has_end: bool) -> None:
    written = [each + b"\n" for each in lines]
    if written and not has_end:
        written[-1] = written[-1][:-1]
    data = b"".join(written)
    assert list(lines_of(io.BytesIO(data), 0)) == io.BytesIO(data).readlines()


@pytest.mark.parametrize("before", [0, 1, LONGEST_LINE - 1, LONGEST_LINE])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_beyond_its_bound_is_refused_wherever_it_begins(before: int, end: bytes) -> None:
    begin = b"a" * max(before - 1, 0) + b"\n" if before else b""
    with pytest.raises(OutOfBounds, match="a line of more than"):
        list(lines_of(io.BytesIO(begin + b"b" * (LONGEST_LINE + 1 - len(end)) + end), 0))


def test_more_than_a_manifest_may_unpack_to_is_refused() -> None:
    with pytest.raises(OutOfBounds, match="unpacks to more than"):
        list(lines_of(io.BytesIO((b"a" * 1023 + b"\n") * (AT_LEAST // 1024) + b"\n"), 0))


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 9), st.booleans())
def test_items_come_sorted_from_however_many_parts(numbers: list[int], most: int, is_sorted: bool) -> None:
    numbers = sorted(numbers) if is_sorted else numbers
    with SortedItems[tuple[int, int]](most) as found:
        for at, number in enumerate(numbers):
            found.add((number, at))
        assert found.count == len(numbers)
        for _ in range(2):
            items = list(found)
            assert sorted(items) == sorted(zip(numbers, range(len(numbers)), strict=True))
            assert all(one[0] <= other[0] for one, other in pairwise(items))


def test_an_entry_is_made_of_its_values() -> None:
    entry = Entry("a", size=3, folder="20261101T065755Z", linked="b")
    assert from_values(tuple(entry)) == entry
    assert from_values(tuple(entry)).place == entry.place


def test_a_stop_ends_a_comparison_of_files_that_all_stay() -> None:
    kept, files = list[Line](), [Entry(f"{number:05}", folder="20261101T065755Z") for number in range(BETWEEN_LOOKS)]

    def check_stop() -> None:
        raise StorageStopped

    compare = Comparison("", {}, lambda *_: True, lambda _: False, lambda _: Entry(""), kept.append, check_stop)
    with pytest.raises(StorageStopped):
        list(compare.items(map(listed_of, files), ((each.path, each.line.encode() + b"\n") for each in files)))
    assert len(kept) == BETWEEN_LOOKS - 1
