"""The pictures: what is in them, that equal ones are equal, and that they can be read."""

import io
import re
from threading import Thread
from xml.etree import ElementTree

import pytest
from PIL import Image

from jobs.retries import Rule
from operations.backoff import axes, charts, svg
from operations.backoff.arguments import FORMATS
from operations.backoff.frames import COLUMNS, columns, frame_of
from operations.backoff.pictures import inline
from operations.backoff.subjects import Study, Subject, every_algorithm, study
from operations.backoff.themes import THEMES
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


class TestFiles:
    @pytest.mark.parametrize("subject", every_algorithm(), ids=lambda subject: subject.name)
    def test_equal_input_gives_equal_bytes(self, subject: Subject) -> None:
        for form in FORMATS:
            twice = [charts.draw([study(subject, jobs=20)], form) for _ in range(2)]
            assert twice[0] == twice[1]

    @pytest.mark.parametrize("theme", THEMES.values(), ids=lambda theme: theme.name)
    def test_a_png_opens_and_has_the_background_of_its_theme(self, theme: type) -> None:
        image = Image.open(io.BytesIO(charts.draw([studied("buckets")], "png", theme=theme)))  # type: ignore[arg-type]
        assert image.size == (1656, 892)
        assert image.convert("RGB").getpixel((2, 2)) == tuple(bytes.fromhex(theme.background[1:]))  # type: ignore[attr-defined]

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


class TestGivingUp:
    def test_a_rule_that_retries_nothing_has_a_picture_that_says_so(self) -> None:
        for form in FORMATS:
            assert charts.draw([studied("constant", max_failures=1)], form)
        assert "nothing is retried" in words_of(charts.draw([studied("constant", max_failures=1)]))


class TestWithinAPage:
    def test_two_share_no_ids_but_those_of_equal_things(self) -> None:
        pictures = inline([studied("buckets"), studied("phased")])
        named: dict[str, str] = {}
        for picture in pictures:
            for element in tree_of(picture.encode()).iter():
                if identity := element.get("id"):
                    whole = ElementTree.tostring(element).decode().strip()
                    assert named.setdefault(identity, whole) == whole

    def test_what_is_no_picture_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no SVG"):
            svg.finished("nonsense", "title", "description")


class TestTimeAxis:
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


class TestLoad:
    @pytest.mark.parametrize("scale", ["linear", "log"])
    def test_no_busy_minute_is_lost_where_columns_are_wider(self, scale: str) -> None:
        found = studied("progressive", jobs=3, retries=600)
        frame = frame_of([found], scale)
        edges, values = columns(found.series.jobs, frame)
        assert len(values) == COLUMNS
        assert max(values) == found.figures.peak_per_minute
        assert edges[0] == pytest.approx(frame.start)
        assert edges[-1] == pytest.approx(frame.end)
