"""The pictures: what is in them, that equal ones are equal, and that they can be read."""

import io
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from PIL import Image

from external.durations import span
from jobs.retries import Rule
from operations.backoff import FORMATS, charts
from operations.backoff.study import Study, study

SVG = "{http://www.w3.org/2000/svg}"


def studied(name: str, jobs: int = 10, retries: int = 4, **limits: float) -> Study:
    return study(name, Rule(name, **limits), jobs=jobs, retries=retries)  # type: ignore[arg-type]


def tree_of(picture: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(picture.decode())


def words_of(picture: bytes) -> str:
    return " ".join(text for element in tree_of(picture).iter(f"{SVG}text") for text in element.itertext())


class TestDots:
    def test_stand_where_the_retries_are(self) -> None:
        picture = charts.draw([study("x", Rule("constant", {"base": 60}), jobs=1, retries=4)])
        marks = (use.attrib for use in tree_of(picture).iter(f"{SVG}use") if "stroke" not in use.get("style", ""))
        places = sorted({float(mark["x"]) for mark in marks})
        gaps = [later - earlier for earlier, later in pairwise(places)]
        assert gaps == pytest.approx([gaps[0]] * 3, rel=1e-3)
        assert gaps[0] > 50

    def test_very_many_become_an_image(self) -> None:
        picture = charts.draw([studied("sidekiq", jobs=500, retries=21)])
        assert len(picture) < 500_000
        assert len(list(tree_of(picture).iter(f"{SVG}image"))) >= 1


def test_equal_input_gives_equal_bytes_also_when_threads_draw_at_the_same_time() -> None:
    asked = list(zip(("buckets", "phased"), FORMATS, ("dark", "light"), strict=True))
    expected = {each: charts.draw([studied(each[0])], each[1], theme=each[2]) for each in asked}
    with ThreadPoolExecutor(4) as threads:
        again = threads.map(lambda each: charts.draw([studied(each[0])], each[1], theme=each[2]), asked)
    assert list(again) == list(expected.values())
    image = Image.open(io.BytesIO(expected["phased", "png", "light"]))
    assert image.size == (1656, 892)
    assert image.convert("RGB").getpixel((2, 2)) == tuple(bytes.fromhex("fffffe"))  # a dark one: test_page.py


def test_it_has_a_role_a_title_and_a_description() -> None:
    root = tree_of(charts.draw([studied("sidekiq", max_failures=25)]))
    assert (root.get("role"), root[0].text) == ("img", "Backoff: sidekiq")
    assert "10 jobs fail together" in (root[1].text or "")
    assert "It gives up at failure 25" in (root[1].text or "")


@pytest.mark.parametrize("name", ["$x^$ <b>&\"' 名前 🎉", "a\x01b\x1b ]]>" + "x" * 300, "\\frac{} %s {x}"])
def test_any_name_can_be_drawn(name: str) -> None:
    found = study(name, Rule("constant"), jobs=2, retries=2)
    assert (tree_of(charts.draw([found]))[0].text or "").startswith("Backoff: ")


def test_a_rule_that_retries_nothing_has_a_picture_that_says_so() -> None:
    assert "nothing is retried" in words_of(charts.draw([studied("constant", max_failures=1)]))


@pytest.mark.parametrize(
    ("end", "marks"),
    [
        (10, ["0 s", "2 s", "4 s", "6 s", "8 s", "10 s"]),
        (3_600, ["0 s", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]),
        (360 * 86_400, ["0 s", "60 d", "120 d", "180 d", "240 d", "300 d", "360 d"]),
    ],
)
def test_seconds_to_a_year_are_read_in_units_that_people_know(end: float, marks: list[str]) -> None:
    assert [span(tick) for tick in charts.ticks(0, end, 6, log=False)] == marks


def test_two_side_by_side_share_their_axes() -> None:
    both = [studied("buckets"), studied("phased")]
    frame, waits = charts.frame_of(both), [wait for each in both for waits in each.waits for wait in waits]
    assert frame.end >= max(job[-1] for each in both for job in each.jobs)
    assert frame.waits == (max(1, min(waits)), max(waits))


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_load_shows_each_busy_minute(scale: str) -> None:
    """None of 600 retries within 360 days falls between two columns."""
    found = studied("progressive", jobs=3, retries=600)
    picture = charts.draw([found], scale=scale)
    assert f"Retries per minute, {found.peak} at most" in words_of(picture)
    corners = max(path.get("d", "").count("L") for path in tree_of(picture).iter(f"{SVG}path"))
    assert corners >= 4 * len(found.per_minute)
