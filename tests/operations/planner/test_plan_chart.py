"""The picture of a plan: what stands in it, and that it is fit for a page."""

import re
from datetime import UTC, datetime
from xml.etree import ElementTree

from operations.plan import chart
from schedules.plan import Plan
from schedules.plan_queue import Gate
from tests.operations.planner.plans import plan_for

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

    def test_of_nothing_can_be_drawn(self) -> None:
        assert "All at the trigger: nothing in these seven days" in texts(plan_for(events=0, window_for=0))

    def test_names_are_drawn_whatever_letters_they_have(self) -> None:
        plan = plan_for(
            name="<nightly> $a$ & 夜", events=3_000, gate=Gate(rate=1, in_flight=9, name="$\\frac{1}{2}$ 夜")
        )
        assert any("$\\frac{1}{2}$ □" in text for text in texts(plan))

    def test_days_begin_at_local_midnight_also_when_the_clock_changes(self) -> None:
        start = datetime(2026, 10, 24, 10, tzinfo=UTC)  # noon in Berlin; on the 25th clocks go back
        found = chart.midnights(start, "Europe/Berlin")
        assert [minutes for minutes, _ in found][:3] == [12 * 60, 37 * 60, 61 * 60]
        assert [f"{day:%d}" for _, day in found] == ["25", "26", "27", "28", "29", "30", "31"]
