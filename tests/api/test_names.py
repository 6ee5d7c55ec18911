"""References are names, and a script finds an id by its name with one call."""

import pytest

from delivery.models import Endpoint
from tests.api.asking import Program, found, ids_of, made
from tests.factories import make_retry_policy, make_schedule, make_throttle
from tests.sources.factories import make_policy

pytestmark = pytest.mark.django_db


class TestReferences:
    def test_are_names_in_bodies_and_answers(self, program: Program) -> None:
        throttle, retry_policy = make_throttle(3), make_retry_policy()
        Endpoint.objects.create(name="receiver", url="https://example.com/hook")
        names = {"endpoint": "receiver", "throttle": throttle.name, "retry_policy": retry_policy.name}
        answer = program.post("schedules", {"name": "hourly", "cron": "0 * * * *"} | names)
        for row in (made(answer), found(program.get("schedules"))["items"][0]):
            assert {name: row[name] for name in names} == names
        changed = found(program.patch(answer.headers["Location"], {"throttle": None, "retry_policy": None}))
        assert (changed["throttle"], changed["retry_policy"], changed["endpoint"]) == (None, None, "receiver")
        policy = make_policy(throttle=throttle)
        row = found(program.get(f"policies/{policy.pk}"))
        assert (row["throttle"], row["repository"]) == (throttle.name, policy.repository.name)

    def test_keep_the_etag_when_what_they_name_is_renamed(self, program: Program) -> None:
        throttle = make_throttle(3)
        schedule = make_schedule(throttle=throttle)
        etag = program.get(f"schedules/{schedule.pk}").headers["ETag"]
        found(program.patch(f"throttles/{throttle.pk}", {"name": "renamed"}))
        again = program.get(f"schedules/{schedule.pk}")
        assert (found(again)["throttle"], again.headers["ETag"]) == ("renamed", etag)


class TestFindingAnIdByItsName:
    def test_each_list_takes_the_exact_name(self, program: Program) -> None:
        endpoint = Endpoint.objects.create(name="receiver", url="https://example.com/hook")
        policy, other = make_policy(), make_policy()
        throttle, retry_policy, schedule = make_throttle(3), make_retry_policy(), make_schedule()
        make_throttle(4)
        expected = {
            "throttles": (throttle.name, throttle.pk),
            "retry-policies": (retry_policy.name, retry_policy.pk),
            "endpoints": (endpoint.name, endpoint.pk),
            "schedules": (schedule.name, schedule.pk),
            "policies": (policy.schedule.name, policy.pk),
            "repositories": (other.repository.name, other.repository_id),
        }
        for path, (name, pk) in expected.items():
            assert ids_of(program.get(path, name=name)) == [pk], path
            assert ids_of(program.get(path, name=name[:-1])) == [], path
