"""The picture of a plan: what stands in it, and that it is fit for a page."""

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from operations.backlog.rendering import text_of
from operations.backoff.themes import DARK, LIGHT
from operations.plan import chart
from operations.plan.rendering import plan_view
from schedules.plan import Plan
from schedules.plan_queue import Gate
from tests.operations.planner.plans import plan_for, planned

SLOW = Gate(in_flight=50, rate=1, burst=1, name="slow")


def texts(plan: Plan) -> list[str]:
    root = ElementTree.fromstring(chart.draw(plan))
    return [
        text for text in ("".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")) if text
    ]


class TestThePicture:
    def test_has_a_panel_for_each_way_with_its_figures(self) -> None:
        found = texts(plan_for(cron="0 3 * * *", gate=SLOW))
        spread = "Spread over the window (as it is set): 17 in the busiest minute (Sat 03:04), 0.69 a minute on average"
        assert [text for text in found if re.sub(r"03:\d\d", "03:04", text) == spread]
        assert "All at the trigger: 1,000 in the busiest minute (Sat 03:00), 0.69 a minute on average" in found
        assert "Sun 22 Nov" in found

    def test_says_which_way_is_set(self) -> None:
        [set_so] = [text for text in texts(plan_for(staggered=False)) if "(as it is set)" in text]
        assert set_so.startswith("All at the trigger")

    def test_has_one_panel_without_a_window(self) -> None:
        found = texts(plan_for(window_for=0))
        assert [text for text in found if "busiest" in text] == [
            "All at the trigger: 1,000 in the busiest minute (Sat 01:00), 17 a minute on average"
        ]

    def test_draws_the_pace_where_it_is_in_sight(self) -> None:
        line = "what the throttle slow lets through"
        assert texts(plan_for(events=3_000, gate=SLOW)).count(line) == 2
        assert texts(plan_for(gate=SLOW)).count(line) == 1  # 60 a minute beside 17 and 1,000
        assert line not in texts(plan_for(gate=Gate(in_flight=0, name="slow")))
        assert line not in texts(plan_for())

    def test_names_what_sets_the_pace(self) -> None:
        workers = Gate(in_flight=50, places=1, workers=1, name="wide")
        assert "what the concurrency of the workers lets through" in texts(plan_for(gate=workers))

    def test_a_small_schedule_is_seen_beside_large_ones(self) -> None:
        plot = Figure().subplots()
        plan = plan_for(planned(name="large", events=100_000, staggered=False), events=10, window_for=0, gate=SLOW)
        chart._draw_one(plot, plan, plan.chosen, LIGHT)
        behind, before = (patch.get_data().values for patch in plot.patches)
        assert max(behind) == 100_010
        assert max(before) == chart.LEAST_IN_SIGHT * 100_010
        assert "faint: with all that shares its throttle; 10 of its own at most" in texts(plan)
        assert not [text for text in texts(plan_for()) if "shares" in text]
        assert [bool(value) for value in before] == [bool(value) for value in chart.columns(plan.chosen.own)]

    def test_of_nothing_can_be_drawn(self) -> None:
        assert "All at the trigger: nothing in these seven days" in texts(plan_for(events=0, window_for=0))

    def test_is_the_same_for_the_same_plan(self) -> None:
        assert chart.draw(plan_for()) == chart.draw(plan_for())

    def test_names_are_drawn_whatever_letters_they_have(self) -> None:
        plan = plan_for(
            name="<nightly> $a$ & 夜", events=3_000, gate=Gate(rate=1, in_flight=9, name="$\\frac{1}{2}$ 夜")
        )
        assert any("$\\frac{1}{2}$ □" in text for text in texts(plan))

    def test_turns_dark_with_its_page(self) -> None:
        inline = chart.inline(plan_for(planned(name="other"), gate=SLOW))
        assert f"light-dark({LIGHT.ink}, {DARK.ink})" in inline
        assert inline.count(f"light-dark({LIGHT.accent}, ") >= 2
        assert 'role="img"' in inline
        assert "<title" in inline
        assert len(inline) < 200_000

    @pytest.mark.parametrize(("values", "found"), [([1, 5, 2], [5]), ([0] * 15 + [3] + [0] * 15, [0, 3, 0])])
    def test_a_column_shows_its_busiest_minute(self, values: list[float], found: list[float]) -> None:
        assert chart.columns(values) == found

    def test_days_begin_at_local_midnight_also_when_the_clock_changes(self) -> None:
        start = datetime(2026, 10, 24, 10, tzinfo=UTC)  # noon in Berlin; on the 25th clocks go back
        found = chart.midnights(start, "Europe/Berlin")
        assert [minutes for minutes, _ in found][:3] == [12 * 60, 37 * 60, 61 * 60]
        assert [f"{day:%d}" for _, day in found] == ["25", "26", "27", "28", "29", "30", "31"]


def test_at_a_terminal_the_load_of_others_is_told_as_theirs() -> None:
    told = text_of(plan_view(plan_for(planned(name="large", events=10_000), events=60, gate=SLOW), []))
    assert "169 in the busiest minute" in told
    assert "with all that shares its throttle; 1 of its own at most" in " ".join(told.split())
    assert "shares" not in text_of(plan_view(plan_for(), []))
