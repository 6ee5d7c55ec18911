"""Shown text: a character that turns or hides a line is seen as what it is, typed text is code, and the contents of a
form are sent back unchanged."""

from html.parser import HTMLParser

import pytest
from django.test import Client
from django.utils import timezone

from declarations.surfaces.web.shown_text import shown
from jobs.models import Breaker, PausedQueue
from jobs.states import Status
from sources.models import Source
from tests.factories import make_record
from tests.sources.factories import make_assignment, make_source

HOSTILE, HARMLESS = "no\u202espace\x9b", r"no\u202espace\u009b"


class Texts(HTMLParser):
    """The texts of a page, apart from those of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found, self._within = "", ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._within = tag

    def handle_data(self, data: str) -> None:
        if self._within not in ("script", "style", "textarea"):
            self.found += data


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (f"<p>{HOSTILE}\n</p>", f"<p>{HARMLESS}\n</p>"),
        (f"<title>`{HOSTILE}`</title>", f"<title>`{HARMLESS}`</title>"),
        (f"<pre>`a` {HOSTILE}</pre>`b`", f"<pre>`a` {HARMLESS}</pre><code>b</code>"),
        ("<p>`a < b`</p>", "<p><code>a < b</code></p>"),
        ("<!-- don't --><p title='`c`' class=\"[&>p]:m `d`\">`e` `f</p>", None),
    ],
)
def test_texts_are_shown_as_they_are_and_what_is_typed_as_code(page: str, expected: str | None) -> None:
    assert shown(page) == (expected or page.replace("`e`", "<code>e</code>"))


@pytest.mark.parametrize(
    "page",
    [
        f'<input x-on:click="a > b" value="{HOSTILE} `a`">',
        f"<textarea rows=3>{HOSTILE} `a`</textarea>",
        f"<option value='{HOSTILE}'>{HOSTILE} `a`</option>",
        f"<script>if (a < b) `{HOSTILE}`</script>",
    ],
)
def test_what_a_form_sends_back_stays(page: str) -> None:
    assert shown(page) == page


def test_pages_show_no_backtick_and_nothing_that_turns_a_line(admin_client: Client) -> None:
    now = timezone.now()
    source = make_assignment(source=make_source(name="laptop-anna")).source
    Source.objects.filter(pk=source.pk).update(paused_at=now, paused_why=HOSTILE, path=HOSTILE)
    record = make_record(Status.FAILED, last_error=HOSTILE)
    PausedQueue.objects.create(name="callbacks", reason=HOSTILE)
    breaker = Breaker.objects.create(
        key="repository:3", title="office", failures=3, opened_at=now, probe_at=now, last_error=HOSTILE
    )
    own = f"/admin/sources/source/{source.pk}/change/"
    found = {}
    for path in (
        *("/", "/home/facts/", own, "/admin/jobs/pausedqueue/", "/admin/jobs/breaker/", "/admin/jobs/backlogrecord/"),
        *(f"/admin/jobs/breaker/{breaker.pk}/change/", f"/admin/jobs/backlogrecord/{record.pk}/change/"),
        *("/admin/delivery/storedsecret/add/", "/admin/schedules/schedule/add/"),
    ):
        answer = admin_client.get(path)
        assert answer.status_code == 200, path
        page = answer.content.decode()
        found[path] = (HARMLESS in page, {"`", "\u202e", "\x9b"} & set(Texts(page).found))
    assert {path: wrong for path, (_, wrong) in found.items() if wrong} == {}
    assert [path for path, (is_seen, _) in found.items() if not is_seen] == list(found)[-2:]
    assert f'value="{HOSTILE}"' in admin_client.get(own).content.decode()
