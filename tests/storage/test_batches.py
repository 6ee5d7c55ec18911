"""Lists of bounded size: none is lost, and none is larger than it may be but for one thing that is so by itself."""

import pytest

from storage.points.batches import batches


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ([], []),
        ([1, 1, 1, 1, 1], [[1, 1, 1], [1, 1]]),
        ([4, 6, 1], [[4, 6], [1]]),
        ([4, 7], [[4], [7]]),
        ([99, 1, 99], [[99], [1], [99]]),
        ([0, 0, 0], [[0, 0, 0]]),
    ],
)
def test_what_is_cut_into_lists(sizes: list[int], found: list[list[int]]) -> None:
    assert list(batches(iter(sizes), 3, 10, lambda size: size)) == found


def test_only_the_number_counts_where_nothing_has_a_size() -> None:
    assert [len(each) for each in batches(range(5), 2)] == [2, 2, 1]
