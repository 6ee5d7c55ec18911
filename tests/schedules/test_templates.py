"""Payload templates: what is filled in, what keeps its type, what is refused and in which words."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from declarations.problems import validated
from schedules import models, templates
from schedules.declarations import ScheduleDeclaration
from schedules.events import batch_of

FACTS = {
    "schedule": "nightly",
    "trigger_at": "2026-03-02T09:00:00Z",
    "event_id": "7-20260302T090000Z-3",
    "number": 3,
    "count": 10,
    "run_after": "2026-03-02T09:12:30.500Z",
    "zone": "Europe/Berlin",
}
OF_THE_EVENT = {name: FACTS[name] for name in templates.OF_THE_EVENT}

texts = st.text(st.characters(exclude_characters="$\0", exclude_categories=["Cs"]), max_size=20)
pieces = texts | st.sampled_from([f"${name}" for name in templates.NAMES] + ["$$", "${number}", "a${event_id}b"])
leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.lists(pieces, max_size=4).map(" ".join)
bodies = st.recursive(
    leaves, lambda part: st.lists(part, max_size=4) | st.dictionaries(texts, part, max_size=4), max_leaves=15
)


def nested(depth: int) -> Any:
    """An empty list, so many levels deep."""
    template: list[Any] = []
    for _ in range(depth):
        template = [template]
    return template


class TestRendering:
    @pytest.mark.parametrize(
        ("template", "payload"),
        [
            ("$number", 3),
            ("${count}", 10),
            ("$event_id", "7-20260302T090000Z-3"),
            ("shard $number of $count", "shard 3 of 10"),
            ("$$5 for $schedule", "$5 for nightly"),
            ("$$number", "$number"),
            ({"$number": ["$zone", {"a": "$run_after"}]}, {"$number": ["Europe/Berlin", {"a": FACTS["run_after"]}]}),
            ([1, None, True, 1.5, ""], [1, None, True, 1.5, ""]),
            ({}, {}),
        ],
    )
    def test_fills_in_what_texts_name_and_keeps_the_type_of_what_stands_alone(self, template, payload):
        templates.check(template)
        compiled = templates.compiled(template, {name: FACTS[name] for name in templates.OF_THE_BATCH})
        assert json.loads(compiled.fill(**OF_THE_EVENT)) == payload

    @given(bodies)
    def test_does_not_depend_on_which_facts_are_of_the_batch_and_which_of_the_event(self, template):
        templates.check(template)
        compiled = templates.compiled(template, {name: FACTS[name] for name in templates.OF_THE_BATCH})
        at_once = templates._walk(template, lambda text, where: templates._render_text(text, FACTS, where), "")
        assert json.loads(compiled.fill(**OF_THE_EVENT)) == at_once

    def test_of_a_name_with_quotes_dollars_and_marks_comes_out_as_it_is(self):
        name = 'a "$number" \\ \n = $'
        compiled = templates.compiled({"s": "$schedule", "t": "<$schedule $number>"}, {**FACTS, "schedule": name})
        assert json.loads(compiled.fill(**OF_THE_EVENT)) == {"s": name, "t": f"<{name} 3>"}


class TestWhatDoesNotRender:
    @pytest.mark.parametrize(
        ("template", "error"),
        [
            ({"a": {"b": ["x", "$shard"]}}, r"there is no \$shard at a\.b\[1\]; there are \$schedule"),
            ("$Number", r"there is no \$Number;"),
            ({"price": "5 $"}, r"'5 \$' at price has a \$ that begins no name; write \$\$"),
            ({"a": "${number"}, "begins no name"),
            ("x" * 200_001, "200,003 characters, more than 200,000"),
        ],
    )
    def test_is_refused_with_what_where_and_what_to_do(self, template, error):
        with pytest.raises(ValueError, match=error):
            templates.check(template)

    @pytest.mark.parametrize(
        ("value", "error"),
        [
            (float("nan"), "NaN or infinite"),
            (float("-inf"), "NaN or infinite"),
            (datetime(2026, 3, 2, tzinfo=UTC), "must be JSON"),
            ("x\0", "NUL"),
            ("\ud800", "surrogate"),
            (10**1001, "1,000 digits"),
            (nested(50), "more than 50 levels deep"),
            (nested(100_000), "more than 50 levels deep"),
        ],
    )
    def test_is_what_is_no_json_that_the_database_holds(self, value, error):
        with pytest.raises(ValidationError, match=error):
            validated(ScheduleDeclaration, {"name": "nightly", "cron": "0 2 * * *", "payload_template": [value]})


def test_the_deepest_template_that_is_taken_renders():
    template = validated(
        ScheduleDeclaration, {"name": "a", "cron": "0 2 * * *", "payload_template": nested(50)}
    ).payload_template
    schedule = models.Schedule(pk=1, name="a", event_count=1, payload_template=template)
    now = datetime(2026, 3, 2, tzinfo=UTC)
    [payload] = batch_of(schedule, now, now).payloads(1, [0])
    assert json.loads(payload)["body"] == template
