"""Endpoints in the admin: what is secret is never shown again, and what they are used for is heeded."""

import re
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from audit.models import AuditEntry
from delivery.models import Endpoint, SigningSecret
from delivery.signing import rotate
from jobs.models import BacklogRecord
from jobs.outcomes import Failed, Succeeded
from operations.admin.endpoints import EndpointForm
from sealing.encryption import unseal
from tests.delivery.endpoint_rows import a_worker_delivers, make_endpoint, sealed
from tests.people import staff
from tests.schedules.event_records import make_event_schedule

pytestmark = pytest.mark.django_db

LIST = "/admin/delivery/endpoint/"
SECRET = "Bearer sesame"
HEADER = {"headers-0-name": "X-Tenant", "headers-0-value": "7"}
USUAL = {"name": "hooks", "url": "https://example.com/hooks", "connect_timeout": 5, "timeout": 30}


@pytest.fixture
def editor() -> Client:
    return staff(
        "view_endpoint", "add_endpoint", "change_endpoint", "delete_endpoint", "view_backlogrecord",
    )  # fmt: skip


def page_of(endpoint: Endpoint, verb: str = "change") -> str:
    return f"{LIST}{endpoint.pk}/{verb}/"


def text_of(client: Client, url: str) -> str:
    return client.get(url).content.decode()


def save(client: Client, at: str, **fields: Any) -> HttpResponse:
    return client.post(at, USUAL | fields)  # type: ignore[return-value]


def errors_on(answer: HttpResponse) -> list[str]:
    form = answer.context_data["adminform"].form  # type: ignore[attr-defined]
    return [f"{field}: {message}" for field, all_of_it in form.errors.items() for message in all_of_it]


def test_a_new_one_is_said_not_to_be_signed_yet(editor: Client) -> None:
    answer = save(editor, f"{LIST}add/", kind="http_callback", **HEADER, authorization=SECRET)
    assert answer.status_code == 302, errors_on(answer)
    endpoint = Endpoint.objects.get()
    assert endpoint.headers == {"X-Tenant": "7"}
    assert unseal(endpoint.sealed_authorization) == SECRET
    assert "not signed yet" in text_of(editor, LIST)
    form = EndpointForm(USUAL | {"name": "other", "kind": "http_callback", "authorization": f"{SECRET}\nb"})
    assert form.errors["authorization"][0].startswith("is one line")
    assert SECRET not in form.as_p()


def test_the_authorization_is_never_shown_again_stays_when_it_is_left_empty_and_goes_when_asked(editor: Client) -> None:
    endpoint = make_endpoint(**sealed(SECRET))
    shown = "".join(text_of(editor, page) for page in (page_of(endpoint), LIST, page_of(endpoint, "history")))
    assert SECRET not in shown
    assert endpoint.sealed_authorization not in shown
    assert 'type="password"' in shown
    assert ">set<" in re.sub(r"\s", "", shown)
    answer = save(editor, page_of(endpoint), authorization=SECRET, remove_authorization="on")
    assert "choose one" in errors_on(answer)[0]
    assert SECRET not in answer.content.decode()
    for fields, after in (({"timeout": 7}, SECRET), ({"authorization": "Bearer new"}, "Bearer new")):
        assert save(editor, page_of(endpoint), **fields).status_code == 302
        assert unseal(Endpoint.objects.get().sealed_authorization) == after
    assert save(editor, page_of(endpoint), remove_authorization="on").status_code == 302
    assert Endpoint.objects.get().sealed_authorization == ""


class TestSecrets:
    def test_are_listed_with_age_and_retirement_and_without_themselves(self, editor: Client) -> None:
        endpoint = make_endpoint()
        known = [rotate(endpoint), rotate(endpoint, 3600)]
        shown = text_of(editor, page_of(endpoint))
        assert "retiring" in shown
        assert "in use" in shown
        assert not [secret for secret in known if secret in shown]
        assert "2 secrets" in text_of(editor, LIST)

    @pytest.mark.parametrize(("verb", "in_use"), [("rotate", 2), ("replace", 1)])
    def test_a_new_one_is_shown_once_after_a_question(self, verb: str, in_use: int, editor: Client) -> None:
        endpoint = make_endpoint()
        rotate(endpoint)
        asked = text_of(editor, page_of(endpoint, verb))
        assert "shown once" in asked
        assert SigningSecret.objects.count() == 1
        answer = editor.post(page_of(endpoint, verb), {"confirmed": "yes"})
        [secret] = re.findall(r"whsec_[\w+/=]+", answer.content.decode())
        assert secret == unseal(SigningSecret.objects.latest("pk").sealed)
        assert "no-store" in answer["Cache-Control"]
        assert secret not in text_of(editor, page_of(endpoint))
        assert secret not in str(list(AuditEntry.objects.values()))
        assert f"{in_use} secret" in text_of(editor, LIST)


def test_a_test_tells_code_and_seconds_or_what_failed_without_markup(
    editor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = page_of(make_endpoint(), "test")
    a_worker_delivers(monkeypatch, lambda _: Succeeded(facts={"status": 204, "seconds": 0.25}))
    assert "Its callbacks are not signed: there is no signing secret in use." in text_of(editor, page)
    answer = editor.post(page, {"confirmed": "yes"}, follow=True).content.decode()
    assert "delivered: it answered 204 after 0.250 s" in answer
    assert f"/admin/jobs/backlogrecord/{BacklogRecord.objects.get().pk}/change/" in answer
    a_worker_delivers(monkeypatch, lambda _: Failed("<script>alert(1)</script>"))
    answer = editor.post(page, {"confirmed": "yes"}, follow=True).content.decode()
    assert "not delivered: &lt;script&gt;" in answer


def test_each_is_listed_once_whichever_column_the_list_is_sorted_by(admin_client: Client) -> None:
    used, unused = make_endpoint(name="a"), make_endpoint(name="b")
    for number in range(3):
        make_event_schedule(name=f"schedule {number}", endpoint=used)
    for column in range(1, 8):
        rows = admin_client.get(LIST, {"o": f"-{column}"}).context["cl"].result_list
        assert sorted(row.pk for row in rows) == [used.pk, unused.pk], column
    assert [row.pk for row in admin_client.get(LIST, {"o": "6"}).context["cl"].result_list] == [unused.pk, used.pk]
