"""The pictures: what is in them, that equal ones are equal, and that they can be read."""

import io
import re
from threading import Thread
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from jobs.retries import Rule
from operations.backoff import axes, charts, svg
from operations.backoff.arguments import FORMATS
from operations.backoff.frames import COLUMNS, Frame, columns, frame_of
from operations.backoff.pictures import inline
from operations.backoff.subjects import Study, Subject, every_algorithm, study
from operations.backoff.themes import DARK, LIGHT, THEMES
from tests.waiting import PATIENCE

SVG = "{http://www.w3.org/2000/svg}"


def studied(name: str, jobs: int = 10, retries: int = 4, **limits: float) -> Study:
    return study(Subject(name, Rule(name, **limits)), jobs=jobs, retries=retries)  # type: ignore[arg-type]


def tree_of(picture: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(picture.decode())


def dots_by_colour(picture: bytes) -> dict[str, int]:
    """How many dots are drawn in each colour: short strokes with round ends."""
    found: dict[str, int] = {}
    for path in tree_of(picture).iter(f"{SVG}path"):
        style = path.get("style", "")
        if "stroke-linecap: round" in style:
            [colour] = re.findall(r"stroke: (#\w+)", style)
            found[colour] = found.get(colour, 0) + path.get("d", "").count("M")
    return found


def words_of(picture: bytes) -> str:
    return " ".join(text for element in tree_of(picture).iter(f"{SVG}text") for text in element.itertext())


class TestDots:
    def test_one_a_retry_coloured_by_its_number(self) -> None:
        found = dots_by_colour(charts.draw([studied("buckets", jobs=30, retries=5)]))
        assert found == dict.fromkeys(LIGHT.retries(5), 30)

    def test_none_for_what_was_given_up(self) -> None:
        found = dots_by_colour(charts.draw([studied("constant", jobs=10, retries=9, max_failures=3)]))
        assert found == dict.fromkeys(LIGHT.retries(2), 10)

    def test_stand_where_the_retries_are(self) -> None:
        picture = charts.draw([study(Subject("x", Rule("constant", {"base": 60})), jobs=1, retries=4)])
        places = []
        for path in tree_of(picture).iter(f"{SVG}path"):
            if "stroke-linecap: round" in path.get("style", ""):
                places += [float(x) for x in re.findall(r"M ([\d.]+) ", path.get("d", ""))]
        gaps = [later - earlier for earlier, later in zip(sorted(places), sorted(places)[1:], strict=False)]
        assert gaps == pytest.approx([gaps[0]] * 3)
        assert gaps[0] > 50

    def test_very_many_become_an_image(self) -> None:
        picture = charts.draw([studied("phased", jobs=1_000, retries=21)])
        assert dots_by_colour(picture) == {}
        assert len(list(tree_of(picture).iter(f"{SVG}image"))) >= 1

    def test_a_thousand_jobs_stay_a_small_file(self) -> None:
        picture = charts.draw([studied("phased", jobs=1_000, retries=12)])
        assert len(picture) < 1_000_000


class TestFiles:
    @pytest.mark.parametrize("subject", every_algorithm(), ids=lambda subject: subject.name)
    def test_equal_input_gives_equal_bytes(self, subject: Subject) -> None:
        for form in FORMATS:
            twice = [charts.draw([study(subject, jobs=20)], form) for _ in range(2)]
            assert twice[0] == twice[1]

    def test_no_date_and_no_program_is_written_into_them(self) -> None:
        picture = charts.draw([studied("buckets")])
        assert b"metadata" not in picture
        assert b"atplotlib" not in picture
        image = Image.open(io.BytesIO(charts.draw([studied("buckets")], "png")))
        assert "Software" not in image.info

    @pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)
    def test_a_png_opens_and_has_the_background_of_its_theme(self, theme: type) -> None:
        image = Image.open(io.BytesIO(charts.draw([studied("buckets")], "png", theme=theme)))  # type: ignore[arg-type]
        assert image.size == (1656, 892)
        assert image.convert("RGB").getpixel((2, 2)) == tuple(bytes.fromhex(theme.background[1:]))  # type: ignore[attr-defined]

    def test_two_are_drawn_side_by_side_on_the_same_axes(self) -> None:
        pair = [studied("constant"), studied("sidekiq", retries=8)]
        found = words_of(charts.draw(pair))
        assert "constant" in found
        assert "sidekiq" in found
        # that of sidekiq ends an hour and a half after that of constant, at 20 min
        assert found.count("1 h 20 min") == 2

    def test_threads_draw_at_the_same_time(self) -> None:
        expected = {name: charts.draw([studied(name)]) for name in ("buckets", "phased", "sidekiq")}
        found: list[tuple[str, bytes]] = []
        threads = [
            Thread(target=lambda name=name: found.append((name, charts.draw([studied(name)]))))
            for name in list(expected) * 3
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert len(found) == 9
        assert all(picture == expected[name] for name, picture in found)


class TestForThoseWhoDoNotSeeIt:
    def test_it_has_a_role_a_title_and_a_description(self) -> None:
        root = tree_of(charts.draw([studied("sidekiq", max_failures=25)]))
        title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
        assert root.get("role") == "img"
        assert title is not None
        assert title.text == "Backoff: sidekiq"
        assert root.get("aria-labelledby") == title.get("id")
        assert description is not None
        assert root.get("aria-describedby") == description.get("id")
        assert "10 jobs fail together" in (description.text or "")
        assert "It gives up at failure 25" in (description.text or "")

    def test_its_text_is_text(self) -> None:
        found = words_of(charts.draw([studied("fibonacci")]))
        assert "One dot per retry" in found
        assert "unit 60 s" in found

    @pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)
    def test_colours_stand_out_and_get_lighter_with_each_retry(self, theme: type) -> None:
        shades = [_luminance(colour) for colour in theme.retries(12)]  # type: ignore[attr-defined]
        assert shades == sorted(shades)
        background = _luminance(theme.background)  # type: ignore[attr-defined]
        assert all(_contrast(shade, background) > 1.6 for shade in shades)
        assert _contrast(_luminance(theme.ink), background) > 7  # type: ignore[attr-defined]
        assert _contrast(_luminance(theme.faint), background) > 4.5  # type: ignore[attr-defined]


class TestNames:
    @pytest.mark.parametrize(
        "name", ["$x^$", "<b>&\"'", "名前 🎉", "a\x01b\x1b", "]]>", "x" * 300, "\\frac{}", "%s {x}"]
    )
    def test_any_name_can_be_drawn(self, name: str) -> None:
        found = study(Subject(name, Rule("constant")), jobs=2, retries=2)
        for form in FORMATS:
            assert charts.draw([found], form)
        root = tree_of(charts.draw([found]))
        assert root.find(f"{SVG}title") is not None
        tree_of(inline([found])[0].encode())

    def test_letters_that_the_font_lacks_are_boxes_but_read_aloud_as_they_are(self) -> None:
        picture = charts.draw([study(Subject("名x", Rule("constant")), jobs=2, retries=2)])
        assert "□x" in words_of(picture)
        assert "Backoff: 名x".encode() in picture


class TestGivingUp:
    def test_is_marked_where_it_lies_within_the_picture(self) -> None:
        words = words_of(charts.draw([studied("constant", retries=9, max_failures=4)]))
        assert words.replace("It gives up at", "").count("gives up") == 1

    def test_is_not_marked_beyond_it(self) -> None:
        words = words_of(charts.draw([studied("constant", retries=3, max_failures=40)]))
        assert words.replace("It gives up at", "").count("gives up") == 0

    def test_a_rule_that_retries_nothing_has_a_picture_that_says_so(self) -> None:
        for form in FORMATS:
            assert charts.draw([studied("constant", max_failures=1)], form)
        assert "nothing is retried" in words_of(charts.draw([studied("constant", max_failures=1)]))


class TestWithinAPage:
    def test_colours_can_be_changed_and_turn_dark(self) -> None:
        [picture] = inline([studied("buckets", retries=3)])
        for colour in (*LIGHT.retries(3), LIGHT.ink, LIGHT.background):
            assert f": light-dark({colour}, " in picture
            assert f": {colour}" not in picture
        assert f": light-dark({LIGHT.retries(3)[0]}, {DARK.retries(3)[0]})" in picture
        assert "<style" not in picture  # which the policy of the pages refuses

    def test_two_share_no_ids_but_those_of_equal_things(self) -> None:
        pictures = inline([studied("buckets"), studied("phased")])
        named: dict[str, str] = {}
        for picture in pictures:
            for element in tree_of(picture.encode()).iter():
                if identity := element.get("id"):
                    whole = ElementTree.tostring(element).decode().strip()
                    assert named.setdefault(identity, whole) == whole

    def test_it_is_as_wide_as_its_place(self) -> None:
        [picture] = inline([studied("buckets")])
        assert "width=" not in picture[: picture.index(">")]
        assert "w-full" in picture[: picture.index(">")]

    def test_what_is_no_picture_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no SVG"):
            svg.finished("nonsense", "title", "description")


class TestTimeAxis:
    @given(st.floats(0.001, 1e12), st.integers(4, 10))
    def test_linear_ticks_are_few_round_and_reach_the_end(self, end: float, most: int) -> None:
        ticks = axes.linear_ticks(end, most)
        assert 1 <= len(ticks) <= most + 1
        assert ticks[0] == 0
        assert ticks[-1] <= end

    @given(st.floats(0.5, 1e6), st.floats(1.1, 1e9), st.integers(3, 10))
    def test_log_ticks_are_few_and_within(self, start: float, times: float, most: int) -> None:
        ticks = axes.log_ticks(start, start * times, most)
        assert 1 <= len(ticks) <= most
        assert all(start <= tick <= start * times * 1.01 for tick in ticks)

    @pytest.mark.parametrize(
        ("end", "ticks"),
        [
            (10, ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]),
            (3_600, ["0", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]),
            (5 * 3_600, ["0", "1 h", "2 h", "3 h", "4 h", "5 h"]),
            (360 * 86_400, ["0", "60 d", "120 d", "180 d", "240 d", "300 d", "360 d"]),
        ],
    )
    def test_seconds_to_a_year_are_read_in_units_that_people_know(self, end: float, ticks: list[str]) -> None:
        assert [axes.told(tick) for tick in axes.linear_ticks(end, 6)] == ticks

    def test_a_year_of_sweeps_gets_a_log_axis_and_an_hour_of_waits_a_linear_one(self) -> None:
        assert frame_of([studied("progressive", jobs=1, retries=600)]).scale == "log"
        assert frame_of([studied("constant")]).scale == "linear"
        assert frame_of([studied("constant")], "log").scale == "log"


class TestLoad:
    def test_has_a_column_a_minute(self) -> None:
        frame = Frame("linear", 0, 240, 3, 1, 10)
        edges, values = columns([(0, 61), (62, 200)], frame)
        assert edges == [0, 60, 120, 180, 240, 300]
        assert values == [1, 2, 0, 1, 0]

    @pytest.mark.parametrize("scale", ["linear", "log"])
    def test_no_busy_minute_is_lost_where_columns_are_wider(self, scale: str) -> None:
        found = studied("progressive", jobs=3, retries=600)
        frame = frame_of([found], scale)
        edges, values = columns(found.series.jobs, frame)
        assert len(values) == COLUMNS
        assert max(values) == found.figures.peak_per_minute
        assert edges[0] == pytest.approx(frame.start)
        assert edges[-1] == pytest.approx(frame.end)


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)
