"""The form of a policy in the admin: its fields, its buttons, its preview, and what a change of it moves."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import cycle
from typing import Any

import pytest
from django.forms import BooleanField
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from declarations.parts import parts_of
from declarations.surfaces.admin.part_fields import PartsField
from fleet.admin.policies import PERIODS, WINDOWS, PolicyForm
from fleet.policy_edits import PLANNED_FROM, Policies
from jobs.models import Throttle
from schedules.models import Schedule
from sources import planning
from sources.domain.retention import usual
from sources.models import Policy, Repository
from tests.factories import make_throttle
from tests.forms import Inputs, shown, typed
from tests.people import staff, told
from tests.sources.factories import backed_up, make_assignment, make_policy

pytestmark = pytest.mark.django_db

POLICIES = "/admin/sources/policy/"


def add_policy(name: str, **fields: Any) -> Policy:
    policy = make_policy(**fields)
    Schedule.objects.filter(pk=policy.schedule_id).update(name=name)
    return Policy.objects.select_related("schedule").get(pk=policy.pk)


@pytest.fixture(autouse=True)
def daily() -> Policy:
    """Two policies: the one whose source was backed up a minute ago, and `weekly`, which is for weekends."""
    daily = add_policy("daily", repository=Repository.objects.create(name="office", location="/srv/backups"))
    backed_up(daily, timezone.now() - timedelta(minutes=1))
    window = [{"days": "sat-sun", "start": "08:00", "end": "20:00"}]
    make_assignment(add_policy("weekly", cron="0 9 * * 6", repository=daily.repository, window=window))
    return daily


def policy_form(**changes: Any) -> dict[str, Any]:
    fields = {
        "name": "nightly", "cron": "0 22 * * *", "zone": "Europe/Berlin", "enabled": "on", "priority": "0",
        "repository": str(Repository.objects.get().pk), "at_close": "finish", "on_battery": "on", "on_metered": "on",
        "keep": {"daily": 7}, "max_running_for": "86400", "connect_timeout": "60", "recheck_after": "900",
        "vanish_grace": "120", "wake_every": "14400", "wake_wait": "180", "copy_within": "86400",
        "drill_from": "repository", **changes,
    }  # fmt: skip
    return typed(Policies.declaration, fields)


class TestPolicies:
    def test_a_policy_and_its_schedule_are_created_in_one_form(self, admin_client: Client) -> None:
        response = admin_client.post(f"{POLICIES}add/", policy_form(recheck_after="15m", alert_after="2d"))
        assert response.status_code == 302, response.context["errors"]
        policy = Policy.objects.get(schedule__name="nightly")
        assert (policy.recheck_after, policy.alert_after) == (900, 172_800)
        shown = admin_client.get(f"{POLICIES}{policy.pk}/change/").context["adminform"].form
        assert [shown[name].value() for name in ("recheck_after", "alert_after", "ping_url")] == ["15m", "2d", ""]
        schedule = policy.schedule
        assert (schedule.cron, schedule.kind, schedule.provider) == ("0 22 * * *", "backup", "assignments")

    def test_the_second_of_two_editors_does_not_revert_what_the_first_has_saved(
        self, admin_client: Client, daily: Policy
    ) -> None:
        url = f"{POLICIES}{daily.pk}/change/"
        first, second = (Inputs(admin_client.get(url).content.decode()).found for _ in range(2))
        assert admin_client.post(url, first | {"priority": "3", "wake_wait": "4m"}).status_code == 302
        for _ in range(2):  # and not at the second attempt
            answer = admin_client.post(url, second | {"vanish_grace": "5m"})
            assert answer.status_code == 200
            assert answer.context["adminform"].form.non_field_errors() == [
                "Changed by another since this page was opened: Priority, Wake wait. "
                "Nothing was saved. Open the page again to see it, and make your changes there."
            ]
            second = Inputs(answer.content.decode()).found
        daily = Policies().rows().get(pk=daily.pk)
        assert (daily.schedule.priority, daily.wake_wait, daily.vanish_grace) == (3, 240, 120)
        same = second | {"priority": "3", "wake_wait": "240s", "vanish_grace": "5m"}  # reverts nothing
        assert admin_client.post(url, same).status_code == 302
        assert Policy.objects.get(pk=daily.pk).vanish_grace == 300

    def test_the_list_takes_few_queries_and_tells_the_window(
        self, admin_client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_max_num_queries(11):
            page = admin_client.get(POLICIES).content.decode()
        assert "sat-sun 08:00–20:00" in page


def form_of(policy: Policy, **changes: Any) -> dict[str, Any]:
    """The data that the browser would send for an untouched page of the policy, with `changes`; None takes a field
    away."""
    inputs, changed = shown(PolicyForm(instance=policy)), typed(Policies.declaration, changes)
    for name in changes.keys() & parts_of(Policies.declaration).keys():
        inputs = {key: text for key, text in inputs.items() if not key.startswith(f"{name}-")}
    return {name: value for name, value in (inputs | changed).items() if value is not None}


def save(client: Client, policy: Policy, **changes: Any) -> str:
    """Change the policy by its page. The messages of the answer."""
    return told(client.post(f"{POLICIES}{policy.pk}/change/", form_of(policy, **changes)))


class TestFields:
    def test_it_takes_as_many_rows_as_a_policy_may_have(self, admin_client: Client) -> None:
        ranges = [{"days": "mon", "start": f"{n // 60:02}:{n % 60:02}", "end": "23:00"} for n in range(200)]
        dates = [f"2027-{1 + n // 28:02}-{1 + n % 28:02}" for n in range(200)]
        answer = admin_client.post(
            f"{POLICIES}add/", policy_form(window=ranges, copy_window=ranges, excluded_dates=dates)
        )
        assert answer.status_code == 302
        policy = Policy.objects.get(schedule__name="nightly")
        assert (policy.window, policy.copy_window, policy.excluded_dates) == (ranges, ranges, dates)
        answer = admin_client.post(f"{POLICIES}add/", policy_form(name="more", window=[*ranges, ranges[0]]))
        assert "at most 200" in answer.context["adminform"].errors["window"][0]

    def test_each_field_says_what_holds_if_it_is_left_alone(self) -> None:
        said = (" if empty", "Default: ")
        for name, field in PolicyForm().fields.items():
            is_plain = field.required or isinstance(field, BooleanField | PartsField) or name in ("name", "repository")
            assert is_plain or any(text in field.help_text for text in said), (name, field.help_text)

    def test_who_may_only_look_is_shown_what_the_schedule_says(self, daily: Policy) -> None:
        page = unescape(
            re.sub(r"<[^>]*>", " ", staff("view_policy").get(f"{POLICIES}{daily.pk}/change/").content.decode())
        )
        for label, value in (("Name", "daily"), ("Cron", "0 9"), ("Priority", "0"), ("Zone", "UTC")):
            assert re.search(rf"{label}\s+{value}", page), label
        assert "The next ten periods" in page


@pytest.fixture
def replanned(monkeypatch: pytest.MonkeyPatch) -> list[Policy]:
    """The policies whose records are planned again."""
    asked: list[Policy] = []
    monkeypatch.setattr(planning, "replan", asked.append)
    return asked


class TestWhatAChangeMoves:
    def test_what_records_follow_from_is_computed_anew(self, daily: Policy, replanned: list[Policy]) -> None:
        changes = {
            "cron": "0 10 * * *", "zone": "Europe/Berlin", "window": [{"start": "08:00", "end": "20:00"}],
            "excluded_dates": ["12-25"], "only_if_it_fits": True, "enabled": False, "priority": 3,
            "throttle": make_throttle(2).name, "seeding_limit": 4, "repository": make_policy().repository.name,
            "copy_to": make_policy().repository.name,
        }  # fmt: skip
        assert changes.keys() == PLANNED_FROM
        for number, (field, value) in enumerate(changes.items(), 1):
            Policies().edit(daily, {field: value})
            assert replanned == [daily] * number, field

    def test_what_moves_no_record_plans_nothing(self, daily: Policy, replanned: list[Policy]) -> None:
        Policies().edit(daily, {"keep": {}, "at_close": "stop", "alert_after": 60, "on_battery": False})
        assert replanned == []

    def test_a_page_that_was_open_during_another_save_is_planned_as_well(
        self, admin_client: Client, daily: Policy, replanned: list[Policy]
    ) -> None:
        opened = form_of(daily)
        Policy.objects.filter(pk=daily.pk).update(window=NEVER_MEETS)
        save(admin_client, daily, **opened)
        assert replanned == [daily]

    def test_an_edit_whose_planning_fails_is_not_saved_at_all(
        self, admin_client: Client, daily: Policy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(policy: Policy) -> None:
            raise RuntimeError("the database went away")

        monkeypatch.setattr(planning, "replan", fail)
        with pytest.raises(RuntimeError):
            save(admin_client, daily, cron="0 10 * * *", keep={})
        daily = Policy.objects.select_related("schedule").get(pk=daily.pk)
        assert (daily.schedule.cron, daily.keep) == ("0 9 * * *", usual())

    def test_a_new_policy_gets_the_throttle_of_its_seeding_limit_which_is_renamed_with_it(self, daily: Policy) -> None:
        declared = {"name": "nightly", "cron": "0 22 * * *", "repository": daily.repository.name, "seeding_limit": 2}
        policy = Policies().edit(Policies().new(), declared).row
        throttle = policy.seeding_throttle
        assert throttle
        assert (throttle.name, throttle.max_in_flight) == (f"first backups of nightly (policy {policy.pk})", 2)
        Policies().edit(policy, {"name": "every day"})
        assert Throttle.objects.get().name.startswith("first backups of every day (policy ")


NEVER_MEETS = [{"days": "mon", "start": "08:00", "end": "09:00"}]


def test_periods_without_an_opening_are_warned_of_and_it_is_saved(admin_client: Client, daily: Policy) -> None:
    messages = save(admin_client, daily, window=NEVER_MEETS)
    assert re.search(r"daily: .*no opening.*backups will be rarer than its cron expression\.", messages)
    daily.refresh_from_db()
    assert daily.window == NEVER_MEETS


def test_what_the_buttons_fill_in_is_valid(daily: Policy) -> None:
    for (_, _, cron), (_, _, window) in zip(PERIODS, cycle(WINDOWS), strict=False):
        declared = {"name": "nightly", "cron": cron, "window": window, "repository": daily.repository.name}
        assert Policies().fill(Policies().new(), declared) is None
    assert len(PERIODS) >= len(WINDOWS)


class TestPreview:
    def answer(self, client: Client, policy: Policy | None = None, **changes: Any) -> str:
        path = f"{POLICIES}{policy.pk}/preview/" if policy else f"{POLICIES}preview/"
        form = form_of(policy, **changes) if policy else policy_form(**changes)
        response = client.post(path, form)
        assert response.status_code == 200
        return str(response.content.decode())

    def ask(self, client: Client, policy: Policy | None = None, **changes: Any) -> str:
        return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", self.answer(client, policy, **changes))))

    @pytest.fixture
    def _in_march(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two days before the clocks go forward in Berlin, in the night of 28 to 29 March."""
        now = datetime(2026, 3, 27, tzinfo=UTC)
        monkeypatch.setattr("sources.planning.previews.database_clock", lambda: now)

    @pytest.mark.usefixtures("_in_march")
    def test_it_tells_local_time_utc_and_the_length_also_in_the_night_of_the_change(self, admin_client: Client) -> None:
        nights = [{"start": "22:00", "end": "06:00"}]
        page = self.ask(admin_client, cron="0 12 * * *", zone="Europe/Berlin", window=nights)
        usual = (
            "Fri 2026-03-27 12:00 03-27 11:00 1 d Fri 03-27 22:00 – Sat 03-28 06:00 Fri 03-27 21:00 – Sat 03-28 05:00"
        )
        assert f"{usual} 8 h" in page
        assert "Sat 03-28 22:00 – Sun 03-29 06:00 Sat 03-28 21:00 – Sun 03-29 04:00 7 h" in page
        assert "Sat 2026-03-28 12:00 03-28 11:00 23 h" in page
        assert page.count(" 8 h") == 9

    @pytest.mark.usefixtures("_in_march")
    def test_holidays_of_a_country_are_named_below_it(self, admin_client: Client) -> None:
        page = self.ask(admin_client, cron="0 12 * * *", excluded_dates=[{"holidays": "DE"}])
        assert "no range begins: Fri 2026-04-03 Good Friday, Mon 2026-04-06 Easter Monday, " in page
        wrong = self.ask(admin_client, cron="0 12 * * *", excluded_dates=[{"holidays": "Italia"}])
        assert "is not the code of a country; did you mean IT (Italy)" in wrong

    def test_what_is_wrong_is_told_in_its_place(self, admin_client: Client) -> None:
        page = self.ask(admin_client, cron="0 0 30 2 *", zone="Europe/Berln", excluded_dates="25-12")
        for start in ("cron: ", "zone: unknown time zone 'Europe/Berln'", "excluded dates: excluded date 1: "):
            assert start in page
        assert "period begins" not in page.lower()
        assert "window:" in self.ask(admin_client, window="1e999")
        assert "<script>" not in self.answer(admin_client, zone="<script>alert(1)</script>")

    def test_nothing_is_saved_and_nothing_planned(self, admin_client: Client, daily: Policy) -> None:
        assert "10:00" in self.ask(admin_client, daily, cron="0 10 * * *")
        assert Policy.objects.get(pk=daily.pk).schedule.cron == "0 9 * * *"
        assert (Policy.objects.count(), Schedule.objects.count()) == (2, 2)

    def test_a_row_that_was_written_past_the_form_can_be_opened_and_put_right(
        self, admin_client: Client, daily: Policy
    ) -> None:
        Policy.objects.filter(pk=daily.pk).update(window=[{"start": "25:00", "end": "06:00"}])
        page = admin_client.get(f"{POLICIES}{daily.pk}/change/").content.decode()
        assert "is not a time of day" in page
