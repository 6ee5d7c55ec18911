"""The effects of the script for instants in UTC on the headings over them."""

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from tests.api.sources.making import add_backup
from tests.browsing import chromium, session_of_a_superuser, without_scripts
from tests.sources.factories import make_assignment

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_a_heading_over_cells_that_begin_with_local_time_says_so(live_server: LiveServer) -> None:
    assignment = make_assignment(last_backup_at=timezone.now())
    add_backup(assignment)
    page_of_source = f"/admin/sources/source/{assignment.source_id}/change/"
    with chromium(live_server.url, session_of_a_superuser(), viewport={"width": 1400, "height": 1000}) as page:
        page.goto(page_of_source)
        table = page.get_by_label("Last backups").locator("table")
        assert table.locator("th").first.inner_text() == "Started (local, UTC)"
        assert "UTC)" in table.locator("td").first.inner_text()
        page.goto("/admin/sources/backup/")
        headings = [text for text in page.locator("#result_list th").all_inner_texts() if "UTC" in text]
        assert headings
        assert {text[text.index("(") :].lower() for text in headings} == {"(local, utc)"}
        with without_scripts(page) as plain:
            plain.goto(page_of_source)
            assert plain.get_by_label("Last backups").locator("th").first.inner_text() == "Started (UTC)"
