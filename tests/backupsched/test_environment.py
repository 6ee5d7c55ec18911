"""Numbers from the environment."""

import os
import subprocess
import sys

import pytest

from backupsched.environment import number, whole
from tests.documents import ROOT


class TestNumber:
    @pytest.mark.parametrize(("written", "found"), [("2.5", 2.5), ("", 7), (" ", 7), (None, 7), ("1e3", 1000)])
    def test_is_what_the_variable_says_or_the_default(self, written, found, monkeypatch):
        if written is not None:
            monkeypatch.setenv("BACKUPSCHED_TEST_NUMBER", written)
        assert number("BACKUPSCHED_TEST_NUMBER", 7) == found

    @pytest.mark.parametrize("written", ["abc", "nan", "inf", "-inf", "1,5", "9" * 400])
    def test_what_is_none_is_told_with_its_name(self, written, monkeypatch):
        monkeypatch.setenv("BACKUPSCHED_TEST_NUMBER", written)
        with pytest.raises(SystemExit, match="BACKUPSCHED_TEST_NUMBER must be a number, as 7, not "):
            number("BACKUPSCHED_TEST_NUMBER", 7)

    def test_a_whole_one_has_no_fraction(self, monkeypatch):
        monkeypatch.setenv("BACKUPSCHED_TEST_NUMBER", "2.5")
        with pytest.raises(SystemExit, match=r"BACKUPSCHED_TEST_NUMBER must be a whole number, as 3, not 2\.5"):
            whole("BACKUPSCHED_TEST_NUMBER", 3)
        monkeypatch.setenv("BACKUPSCHED_TEST_NUMBER", "4")
        assert whole("BACKUPSCHED_TEST_NUMBER", 3) == 4


def test_a_command_says_so_and_shows_no_traceback():
    environment = os.environ | {"BACKUPSCHED_BREAKER_AFTER": "three"}
    asked = [sys.executable, "manage.py", "breakers"]
    ended = subprocess.run(asked, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.startswith("BACKUPSCHED_BREAKER_AFTER must be a number, as 3, not 'three'")
