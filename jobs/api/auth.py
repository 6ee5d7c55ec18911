"""Who asks: a member of staff with a session. And what that person may do."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from ninja.security import SessionAuth

from jobs.api.errors import ApiError
from jobs.web.permissions import may_look, may_operate


class StaffAuth(SessionAuth):
    """A session of a member of staff. Whatever changes something needs the CSRF token, too."""

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        if not request.user.is_authenticated:
            raise ApiError(401, hint="log in at /admin/")
        if not request.user.is_staff:
            raise ApiError(403, hint="this account is not staff; ask an administrator")
        return request.user


class Looking(StaffAuth):
    """Who may see records."""

    allowed: Callable[[HttpRequest], bool] = staticmethod(may_look)

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        """Raises: ApiError (403) without the permission."""
        user = super().authenticate(request, key)
        if not self.allowed(request):
            raise ApiError(403, hint="this account has not the permission; ask an administrator")
        return user


class Operating(Looking):
    """Who may retry and cancel records."""

    allowed = staticmethod(may_operate)
