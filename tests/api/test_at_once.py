"""Two requests at the same moment, on connections of their own: one of them wins, the other one is refused."""

from typing import Any

import pytest
from django.db import transaction

from api import idempotency
from api.models import IdempotencyKey
from declarations.service import FinishResult
from delivery import signing
from jobs.models import Throttle
from operations import throttles
from schedules.editing import Schedules
from tests.api.asking import Program, fields_of, problem_of
from tests.schedules.factories import make_endpoint, make_events
from tests.threads import a_lock_is_waited_for, beside
from tests.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

BODY = {"name": "hooks", "max_in_flight": 5}


def test_the_second_waits_for_the_first_and_sees_what_it_wrote(program: Program) -> None:
    created = program.post("throttles", BODY)
    path, etag = created.headers["Location"], created.headers["ETag"]
    with transaction.atomic():
        Throttle.objects.select_for_update().update(max_in_flight=9)
        second = beside(lambda: program.patch(path, {"name": "other"}, If_Match=etag))
        eventually(a_lock_is_waited_for)
    problem_of(second.result(PATIENCE), 412)
    assert Throttle.objects.get().name == "hooks"


def test_while_a_request_with_a_key_runs_another_is_told_so_and_does_not_wait(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = []
    store = idempotency._stored

    def then_the_other_one_asks(*given: Any) -> IdempotencyKey | None:
        if not answers:
            answers.append(None)
            answers.append(beside(lambda: program.post("throttles", BODY, Idempotency_Key="k")).result(PATIENCE))
        return store(*given)

    monkeypatch.setattr(idempotency, "_stored", then_the_other_one_asks)
    assert program.post("throttles", BODY, Idempotency_Key="k").status_code == 201
    problem_of(answers[1], 409)
    assert answers[1].headers["Retry-After"] == "1"
    assert Throttle.objects.count() == 1
    again = program.post("throttles", BODY, Idempotency_Key="k")
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (201, "true")


def test_what_failed_leaves_no_key_behind(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed, or the database goes, after the row was written and before the answer was stored."""

    class Killed(BaseException):
        pass

    def kill(**fields: Any) -> None:
        raise Killed

    monkeypatch.setattr(IdempotencyKey.objects, "create", kill)
    with pytest.raises(Killed):
        program.post("throttles", BODY, Idempotency_Key="k")
    monkeypatch.undo()
    assert not Throttle.objects.exists()
    assert program.post("throttles", BODY, Idempotency_Key="k").status_code == 201


def test_a_throttle_that_goes_while_a_schedule_names_it_is_told_as_a_problem(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database checks references at the commit."""
    path = program.post("throttles", BODY).headers["Location"]
    schedule, throttle = make_events(), Throttle.objects.get()

    def then_it_goes(service: Any, row: Any) -> FinishResult:
        assert beside(lambda: program.delete(path)).result(PATIENCE).status_code == 204
        return FinishResult()

    monkeypatch.setattr(Schedules, "finish", then_it_goes)
    assert list(fields_of(program.patch(f"schedules/{schedule.pk}", {"throttle": throttle.name}))) == ["throttle"]
    schedule.refresh_from_db()
    assert schedule.throttle_id is None


@pytest.mark.parametrize("deleted", ["endpoint", "throttle"])
def test_what_goes_after_it_was_looked_at_is_no_server_error(
    deleted: str, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"endpoints/{make_endpoint().pk}" if deleted == "endpoint" else program.post("throttles", BODY)["Location"]
    module, name = (signing, "rotate") if deleted == "endpoint" else (throttles, "live")
    then = getattr(module, name)

    def goes(*given: Any) -> Any:
        monkeypatch.undo()
        assert beside(lambda: program.delete(path)).result(PATIENCE).status_code == 204
        return then(*given)

    monkeypatch.setattr(module, name, goes)
    if deleted == "endpoint":
        problem_of(program.post(f"{path}/rotate", {}), 404)
    else:
        assert program.get("throttles").json()["items"][0]["name"] == "hooks"
