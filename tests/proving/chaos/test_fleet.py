"""The workers of a storm that cannot even start."""

import pytest

from proving.chaos.fleet import Fleet, WorkersDoNotStart
from tests.waiting import eventually

pytestmark = pytest.mark.slow


def test_are_not_started_for_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no_such_settings")
    fleet = Fleet(tmp_path, seed=1, size=3)
    try:
        with pytest.raises(WorkersDoNotStart, match="no_such_settings"):
            eventually(lambda: fleet.fill_up())
    finally:
        fleet.kill_all()
    assert fleet.members == []
