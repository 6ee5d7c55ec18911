"""Failed logins: django-axes notices and refuses them; they are counted like everything else that may be guessed
(`operations/limits.py`).

The pair of account and address is counted, and the address; never the account alone, since a stranger could then lock
an administrator out.
"""

import logging
from typing import Any

from axes.handlers.base import AbstractAxesHandler, AxesBaseHandler
from axes.helpers import get_client_username
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from operations.limits import Limit, TooMany, network_of

log = logging.getLogger(__name__)

MINUTES = 5
PAIR = Limit("login", 5, MINUTES * 60)
ADDRESS = Limit("login-address", 50, MINUTES * 60)


class LoginLimits(AbstractAxesHandler, AxesBaseHandler):  # type: ignore[misc]
    """The handler of `AXES_HANDLER`."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        return PAIR.is_spent(_pair(request, credentials)) or ADDRESS.is_spent(address_of(request))

    def user_login_failed(
        self, sender: object, credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: object
    ) -> None:
        if request is None:
            return
        locked = self.is_locked(request, credentials)
        name = get_client_username(request, credentials) or ""
        ended = "refused: too many failed" if locked else "failed"
        log.warning("login as %.100r from %s %s", name, address_of(request), ended)
        if locked:
            request.axes_locked_out = True  # type: ignore[attr-defined]  # its middleware answers with `locked_out`
            return
        for limit, key in ((PAIR, _pair(request, credentials)), (ADDRESS, address_of(request))):
            try:
                limit.spend(key)
            except TooMany:
                continue  # another process took the last one in the meantime

    def user_logged_in(self, sender: object, request: HttpRequest, user: Any, **kwargs: object) -> None:
        PAIR.forget(_pair(request, {"username": user.get_username()}))

    def user_logged_out(self, sender: object, request: HttpRequest, user: Any, **kwargs: object) -> None:
        """Nothing is counted."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """0: django-axes asks `is_locked` instead."""
        return 0


def address_of(request: HttpRequest) -> str:
    """The sender's network: an IPv4 address, or the /64 of an IPv6 address."""
    return network_of(request.META.get("REMOTE_ADDR", ""))


def locked_out(request: HttpRequest, answer: object = None, credentials: object = None) -> HttpResponse:
    """The page with status 429 for an account or address that failed too often."""
    return render(request, "backupsched/locked_out.html", {"minutes": MINUTES}, status=429)


def _pair(request: HttpRequest, credentials: dict[str, Any] | None) -> str:
    return f"{get_client_username(request, credentials) or ''} {address_of(request)}"
