"""Disks that are not waited for: no power goes in a test, and a flush would wait for all that others write as well."""

import os

import pytest

from storage.folders import flushing


@pytest.fixture
def waits_for_disks() -> None:
    """For tests of the waits themselves."""


@pytest.fixture(autouse=True)
def no_waits_for_disks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "waits_for_disks" not in request.fixturenames:
        monkeypatch.setattr(os, "fsync", lambda descriptor: None)
        monkeypatch.setattr(flushing, "_flush", lambda folder, since: None)
