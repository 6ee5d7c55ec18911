"""The input and cost of a page: no NUL, no long search, no rows that there cannot be, no statement without end."""

import pytest
from django.test import Client

from declarations.surfaces.web import error_pages
from tests.api.asking import problem_of
from tests.threads import another_connection


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "search"),
    [
        ("/admin/jobs/backlogrecord/?q={}", "a+" * 1300),
        ("/admin/sources/source/?q={}", "a" * 501),
        ("/admin/search/?s={}", "a+" * 33),
        ("/admin/autocomplete/?app_label=sources&model_name=assignment&field_name=policy&term={}", "a+" * 33),
    ],
)
def test_a_search_of_a_thousand_words_is_refused(path: str, search: str, admin_client: Client) -> None:
    answer = admin_client.get(path.format(search))
    assert (answer.status_code, answer.content[:37]) == (400, b"A search has at most 32 words and 500")
    assert admin_client.get(path.format("a+" * 32)).status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/admin/jobs/backlogrecord/", "/admin/sources/source/", "/backoff/?policies=1"])
def test_a_page_that_takes_too_long_is_given_up_and_the_next_one_is_answered(
    path: str, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with another_connection() as other, monkeypatch.context() as hurried:
        hurried.setattr(error_pages, "PAGE_SECONDS", 0.2)
        other.execute("LOCK jobs_backlogrecord, sources_source, jobs_retrypolicy IN ACCESS EXCLUSIVE MODE")
        answer = admin_client.get(path)
    assert answer.status_code == 503
    assert answer.content.startswith(b"The page was given up")
    assert admin_client.get(path).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("chosen", ["abc", "9" * 40])
@pytest.mark.parametrize("path", ["jobs/backlogrecord", "sources/source", "auth/group"])
def test_rows_that_there_cannot_be_are_no_error_of_the_server(path: str, chosen: str, admin_client: Client) -> None:
    for action in ("cancel", "delete_selected"):
        answer = admin_client.post(f"/admin/{path}/", {"action": action, "_selected_action": [chosen, "1"]})
        assert answer.status_code in (200, 302, 400)
        if answer.status_code == 400:
            assert answer.content.decode() == f"There is no row {chosen[:80]!r}. Go back, and choose from the list.\n"


@pytest.mark.django_db
def test_a_nul_in_an_address_is_refused_in_words(admin_client: Client) -> None:
    for path in ("jobs/backlogrecord/?q=%00", "jobs/backlogrecord/?subject=a%00b", "sources/source/%00/change/"):
        answer = admin_client.get(f"/admin/{path}")
        assert (answer.status_code, "NUL character" in answer.content.decode()) == (400, True)
    problem_of(admin_client.get("/api/records?error=%00"), 400)
    assert admin_client.get("/admin/jobs/backlogrecord/?q=100%25").status_code == 200
