"""Values that have parts: what a form shows and gets back unchanged is what is stored, and what is typed is read."""

from typing import Any

import pytest
from django import forms
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from declarations.parts import HasParts, Pairs
from declarations.surfaces.admin.part_fields import PartsField
from operations.declarations import PARAMETERS
from sources.declarations.policies import COPY_WINDOW, ENGINE_OPTIONS, EXCLUDED, KEEP, WINDOW
from tests.forms import Inputs, sent

HEADERS = Pairs("header")

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
days = st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=7).map(" , ".join) | st.sampled_from(
    ["mon-fri", "Sat - Sun", "fri-mon", "MON"]
)
times = st.times().map(lambda at: f"{at:%H:%M}") | st.sampled_from(["7:5", "00:00", "9:00"])
ranges = st.lists(st.fixed_dictionaries({"start": times, "end": times}, optional={"days": days}), max_size=6)
dates = st.dates().map(str)
excluded = st.lists(
    dates
    | dates.map(lambda day: f"{day}..9999-12-31")
    | st.sampled_from(["12-25", "02-29"])
    | st.sampled_from(
        [{"holidays": "DE"}, {"holidays": "DE", "subdivision": "BY"}, {"holidays": "FR", "subdivision": ""}]
    ),
    max_size=6,
)
numbers = st.integers(1, 100_000)
keep = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("last", "hourly", "daily", "weekly", "monthly", "yearly"), numbers)
    | {"within": st.sampled_from(["30d", "90s", 86_400, 1.5, " 2h"])},
)
printable = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12)
options = st.fixed_dictionaries(
    {},
    optional={
        "transfers": st.integers(1, 64), "checkers": st.integers(1, 64), "ignore_ctime": st.booleans(),
        "bwlimit": st.sampled_from(["10M", "08:00,512K 19:00,off"]),
        "exclude": st.lists(printable.map(" {}*".format) | st.sampled_from(["/a b/**", '<"&\'>']), max_size=4),
    },
)  # fmt: skip
headers = st.dictionaries(printable, printable | st.just(""), max_size=4)
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | printable,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(printable, inner, max_size=3),
    max_leaves=8,
)
"""Values that only SQL can have stored."""


def is_shown(item: Any) -> bool:
    """True if a row has a text: an empty row counts as none."""
    return any(text.strip() for row in WINDOW.cells([item]) for text in row.values())


DRAWN: list[tuple[HasParts, Any]] = [
    (WINDOW, ranges), (COPY_WINDOW, ranges), (EXCLUDED, excluded), (KEEP, keep), (ENGINE_OPTIONS, options),
    (HEADERS, headers), (WINDOW, st.lists(odd.filter(is_shown), max_size=3)),
    (KEEP, st.dictionaries(printable, odd, max_size=3)),
    (PARAMETERS, st.dictionaries(st.sampled_from(["base", "unit", "jitter", "x"]), odd, max_size=3)),
    (ENGINE_OPTIONS, st.fixed_dictionaries({}, optional={"exclude": odd, "transfers": odd, "ignore_ctime": odd})),
]  # fmt: skip


class Bound(forms.Form):
    """A form with one field whose value has parts."""

    def __init__(self, of: HasParts, stored: Any, data: Any = None) -> None:
        super().__init__(data, initial={"value": stored})
        self.fields["value"] = PartsField(of, stored)


@pytest.mark.parametrize(("of", "drawn"), DRAWN)
def test_what_is_posted_unchanged_is_what_is_stored(of: HasParts, drawn: st.SearchStrategy[Any]) -> None:
    @given(drawn)
    def holds(stored: Any) -> None:
        inputs = QueryDict(mutable=True)
        inputs.update(Inputs(Bound(of, stored).as_p()).found)
        form = Bound(of, stored, inputs)
        assert form.is_valid(), form.errors
        assert form.cleaned_data["value"] == stored
        assert [type(each) for each in form.cleaned_data["value"]] == [type(each) for each in stored]
        assert not form.has_changed()

    holds()


def read(of: HasParts, stored: Any, *cells: dict[str, str]) -> Any:
    form = Bound(of, stored, sent("value", cells))
    return form.cleaned_data["value"] if form.is_valid() else form.errors["value"][0]


class TestTyped:
    def test_rows_are_added_left_out_and_changed(self) -> None:
        stored = [{"start": "22:00", "end": "06:00"}, "12-25"]
        rows = [{"days": "", "start": "22:00", "end": "06:00"}, {"days": " ", "start": "", "end": ""},
                {"days": " mon ", "start": "08:00", "end": "9:00"}]  # fmt: skip
        assert read(WINDOW, stored, *rows) == [stored[0], {"days": "mon", "start": "08:00", "end": "9:00"}]
        assert read(WINDOW, stored, {"days": ""}) == []

    def test_a_date_is_a_text_and_holidays_are_an_object(self) -> None:
        assert read(EXCLUDED, [], {"date": "12-25"}, {"holidays": "DE"}) == ["12-25", {"holidays": "DE"}]
        assert "date 1: has a date or dates, or holidays of" in read(EXCLUDED, [], {"date": "12-25", "holidays": "DE"})

    def test_a_part_is_of_its_sort_or_stays_a_text_that_is_refused(self) -> None:
        assert read(KEEP, {"last": 7, "other": 1}, {"last": "", "daily": " 7 ", "other": "1"}) == {
            "daily": 7,
            "other": 1,
        }
        assert read(KEEP, {}, {"last": "7"}, {"daily": "x"}) == {"last": 7, "daily": "x"}  # which no page sends
        assert read(KEEP, {}, {"last": "٣", "daily": "9" * 5000}) == {"last": "٣", "daily": "9" * 5000}
        typed = {"exclude": "a\r\n\n b\n", "ignore_ctime": "no", "transfers": "4"}
        assert read(ENGINE_OPTIONS, {}, typed) == {"exclude": ["a", " b"], "ignore_ctime": False, "transfers": 4}

    def test_a_name_is_there_once(self) -> None:
        rows = {"name": "X", "value": "1"}, {"name": "", "value": ""}, {"name": "Y", "value": "2"}
        assert read(HEADERS, {"X": 1}, *rows) == {"X": 1, "Y": "2"}
        assert "X occurs twice" in read(HEADERS, {}, rows[0], rows[0])
        assert "its name is missing" in read(HEADERS, {}, {"name": " ", "value": "1"})

    def test_a_page_without_the_field_says_nothing_of_it(self) -> None:
        form = Bound(KEEP, {"last": 7}, {"csrf": "x"})
        assert form.is_valid()
        assert form.cleaned_data["value"] is None

    def test_what_was_typed_is_shown_again_as_it_was(self) -> None:
        typed = sent("value", [{"date": "<12>", "holidays": 'D"E', "subdivision": ""}])
        form = Bound(EXCLUDED, [], typed)
        assert not form.is_valid()
        assert Inputs(form.as_p()).found.items() >= typed.items()
