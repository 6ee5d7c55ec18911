"""Passwords cannot be tried without end, and tries from one address lock out no other."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from backupsched import logins
from backupsched.logins import ADDRESS, PAIR
from operations import limits
from operations.models import RateCount

pytestmark = pytest.mark.django_db
PASSWORD = "swordfish-7-lanterns"


@pytest.fixture(autouse=True)
def _one_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_present", lambda: 1_800_000_001.0)


def log_in(name: str, password: str, remote: str = "192.0.2.7") -> Any:
    form = {"username": name, "password": password, "next": "/admin/"}
    return Client(REMOTE_ADDR=remote).post("/admin/login/", form)


@pytest.fixture
def anna() -> User:
    return User.objects.create_user("anna", password=PASSWORD, is_staff=True)


def test_a_password_is_tried_five_times_from_one_address_and_its_owner_signs_in_from_another(anna):
    assert [log_in("anna", "wrong").status_code for _ in range(PAIR.count - 1)] == [200] * (PAIR.count - 1)
    log_in("anna", "wrong")
    refused = log_in("anna", PASSWORD)
    assert refused.status_code == 429
    assert b"Too many failed logins" in refused.content
    assert log_in("anna", PASSWORD, "192.0.2.8").status_code == 302


def test_an_address_that_tries_many_accounts_is_refused_for_all(anna, monkeypatch):
    monkeypatch.setattr(logins, "ADDRESS", replace(ADDRESS, count=6))
    for number in range(6):
        log_in(f"account {number}", "wrong")
    assert log_in("anna", PASSWORD).status_code == 429
    assert log_in("anna", PASSWORD, "192.0.2.8").status_code == 302


def test_a_login_that_succeeds_starts_the_count_anew_and_the_window_ends(anna, monkeypatch):
    for _ in range(2):
        for _ in range(PAIR.count - 1):
            log_in("anna", "wrong")
        assert log_in("anna", PASSWORD).status_code == 302
    for _ in range(PAIR.count):
        log_in("anna", "wrong")
    monkeypatch.setattr(limits, "_present", lambda: 1_800_000_001.0 + PAIR.seconds)
    assert log_in("anna", PASSWORD).status_code == 302


def test_what_was_typed_is_not_kept_and_no_password_is_logged(caplog):
    with caplog.at_level(logging.DEBUG):
        log_in("typed-password-as-name", "secret-of-anna")
    assert "secret-of-anna" not in caplog.text
    assert "login as 'typed-password-as-name' from 192.0.2.7 failed" in caplog.text
    kept = " ".join(RateCount.objects.values_list("key", flat=True))
    assert "typed-password-as-name" not in kept
    assert "192.0.2.7" not in kept
