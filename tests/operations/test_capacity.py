"""The load curve of a capacity check, in a terminal and as a picture."""

from datetime import UTC, datetime
from xml.etree import ElementTree

from declarations.surfaces.terminal import text_of
from operations.capacity import capacity_view, picture
from schedules.capacity import Capacity
from tests.schedules.loads import demand, found, slow


def texts(capacity: Capacity) -> list[str]:
    root = ElementTree.fromstring(picture(capacity))
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_has_its_busiest_minute_and_its_days() -> None:
    shared = found(demand(cron="0 3 * * *", stagger="none"), stagger="none")
    assert sum(shared.load) == 174_000
    drawn = texts(shared)
    assert drawn[0] == "Load: 2,000 in the busiest minute (Sat 03:00), with all that shares its throttle"
    assert drawn[1:3] == ["Sat 21 Nov", "Sun 22 Nov"]


def test_the_pace_is_drawn_while_it_is_in_sight() -> None:
    line = "limit of the throttle slow"
    assert line in texts(found(events=3_000, limits=slow()))
    assert line in texts(found(events=9_000, limits=slow()))
    for away in (found(limits=slow()), found(limits=slow(in_flight=0)), found()):
        assert line not in texts(away)


def test_nothing_can_be_drawn() -> None:
    assert texts(found(events=0))[0] == "Load: nothing in these seven days"
    assert "Load: nothing" in text_of(capacity_view(found(events=0)))


def test_names_are_text_whatever_letters_they_have() -> None:
    limits = slow()
    assert limits.throttle is not None
    limits.throttle.name = "<b>夜\0</b>"
    assert "limit of the throttle <b>夜 </b>" in texts(found(name="\0<i>", events=3_000, limits=limits))


def test_days_begin_at_local_midnight_also_when_the_clock_changes() -> None:
    noon = datetime(2026, 10, 24, 10, tzinfo=UTC)  # in Berlin; on the 25th clocks go back
    root = ElementTree.fromstring(picture(found(zone="Europe/Berlin", now=noon)))
    marks = [(each.text, float(each.get("x", 0))) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [(text, round(x / 4, 1)) for text, x in marks[1:4]] == [
        ("Sun 25 Oct", 12), ("Mon 26 Oct", 37), ("Tue 27 Oct", 61),
    ]  # fmt: skip


def test_the_terminal_has_a_bar_for_each_three_hours() -> None:
    lines = text_of(capacity_view(found(cron="0 3 * * *", limits=slow()))).split("\n")
    assert lines[1] == "  " + " █      " * 6 + " █"
    assert "since Sat 2026-11-21 00:00 UTC" in lines[2]
    assert "completes in its window of 1 h" in lines[4]
