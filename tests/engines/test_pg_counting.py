"""Rows of a dump are counted in chunks, however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from engines.postgresql.counting import Counter

ROWS = st.lists(st.sampled_from([b"1\tx", b"", b"\\\\.", b"COPY a FROM stdin;", b"a\\.", b"\\N"]), max_size=5)
BETWEEN = st.sampled_from([b"", b"\n\n", b"\n--\n-- COPY a FROM stdin; of\n--\n\n", b"SELECT setval('s', 1);\n"])


@given(st.lists(st.tuples(ROWS, BETWEEN), max_size=5), st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_tables_and_rows_are_counted_wherever_the_text_is_cut(
    tables: list[tuple[list[bytes], bytes]], cuts: list[int]
) -> None:
    text = b"--\n-- PostgreSQL database dump\n--\n\nSET a = b;\n\n"
    for rows, between in tables:
        text += b"COPY public.t (a, b) FROM stdin;\n" + b"".join(row + b"\n" for row in rows) + b"\\.\n" + between
    counter, at = Counter(), 0
    for number in range(len(text)):
        if at >= len(text):
            break
        step = cuts[number % len(cuts)]
        counter.feed(text[at : at + step])
        at += step
    assert (counter.tables, counter.rows) == (len(tables), sum(len(rows) for rows, _ in tables))
