"""What is the same for all commands of what is declared."""

from typing import Any

import pytest

from declarations.service import Service
from tests.alerting.making import make_route
from tests.commands import command
from tests.delivery.endpoint_rows import make_endpoint
from tests.factories import make_throttle
from tests.schedules.event_records import make_event_schedule
from tests.sources.factories import make_policy


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("alerts", make_route), ("endpoints", make_endpoint), ("repositories", lambda: make_policy().repository),
        ("schedules", lambda: make_event_schedule(endpoint=make_endpoint())), ("throttles", lambda: make_throttle(3)),
    ],
)  # fmt: skip
def test_it_says_what_a_change_warns_of(name: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row, run = make(), command(name, with_errors=True)[0]
    monkeypatch.setattr(Service, "save", lambda service, row, changed: ["mind the gap"])
    for asked in ([], ["--json"]):
        assert "mind the gap" in run("set", row.name, "--name", "another", *asked).splitlines()[-1]
