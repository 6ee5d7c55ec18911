"""Changes that look like ransomware, and changes that do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.domain.suspicion import Counts, suspicion

MIB = 2**20
USUAL = Counts(1000, 100 * MIB, 10, 990, 0)


@pytest.mark.parametrize(
    ("run", "before", "reason"),
    [
        (USUAL, [USUAL], ""),
        (Counts(0, 0, 0, 0, 1000), [], ""),
        (Counts(500, 50 * MIB, 0, 500, 500), [USUAL], ""),
        (Counts(499, 90 * MIB, 0, 990, 10), [USUAL], "it has 499 files, and each run before had 1,000 or more"),
        (Counts(900, 40 * MIB), [USUAL] * 5, "it has 41,943,040 bytes, and each run before had 104,857,600 or more"),
        (Counts(499, 90 * MIB), [USUAL, Counts(500, 90 * MIB)], ""),
        (Counts(1000, 100 * MIB, 300, 499, 201), [USUAL], "501 of 1,000 files were changed or removed"),
        (Counts(1000, 100 * MIB, 0, 0, 1000), [USUAL], "1,000 of 1,000 files were changed or removed"),
        (Counts(1000, 100 * MIB, 1000, 0, 0), [Counts(1000, 100 * MIB, 900, 100, 0), USUAL], ""),
        (Counts(1000, 100 * MIB, None, None, None), [USUAL], ""),
        (Counts(5, 1, 0, 5, 4), [Counts(9, 9 * MIB, 0, 9, 0)], ""),
        (Counts(4, 1), [Counts(10, 9 * MIB)], "it has 4 files, and each run before had 10 or more"),
        (Counts(2, 9, tables=9, rows=99), [Counts(2, 9, tables=9, rows=198)], ""),
        (
            Counts(2, 9, tables=9, rows=0),
            [Counts(2, 9, tables=9, rows=3)],
            "it has 0 rows, and each run before had 3 or more",
        ),
        (
            Counts(2, 9, tables=4, rows=9),
            [Counts(2, 9), Counts(2, 9, tables=10, rows=9)],
            "it has 4 tables, and each run before had 10 or more",
        ),
        (Counts(2, 9), [Counts(2, 9, tables=10, rows=9)], ""),
        (
            Counts(0, 0),
            [Counts(40, 5)] * 3,
            "it has 0 files, and each run before had 40 or more; it has 0 bytes, and each run before had 5 or more",
        ),
        (Counts(1, 0), [Counts(1, 1)], "it has 0 bytes, and each run before had 1 or more"),
        (Counts(0, 0), [Counts(0, 0)], ""),
    ],
)
def test_what_is_suspicious_and_what_is_not(run: Counts, before: list[Counts], reason: str) -> None:
    assert suspicion(run, before) == reason


number = st.integers(0, 10**6)
counts = st.builds(Counts, number, number.map(lambda n: n * 1000), number, number, number)


@given(st.lists(counts, min_size=1, max_size=5), st.data())
def test_what_was_accepted_once_is_not_suspicious_the_next_time(before: list[Counts], data: st.DataObject) -> None:
    assert suspicion(data.draw(st.sampled_from(before)), before) == ""
