"""The demo's agents, beside the program itself, which has tests of its own."""

from types import SimpleNamespace

import pytest

from demo import agents
from tests.sources.factories import make_source


@pytest.mark.django_db
def test_an_enrolment_that_takes_too_long_is_for_the_next_look(monkeypatch, tmp_path):
    monkeypatch.setattr(agents, "ENROL_SECONDS", 0.001)
    host = SimpleNamespace(name=make_source().name, home=tmp_path, agent=None)
    assert agents.start(host, "http://127.0.0.1:9") is False
    assert host.agent is None
