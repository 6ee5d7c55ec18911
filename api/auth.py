"""Authentication and permissions: a member of staff by session, or a program with one of their tokens.

A token may do what both its scopes and its user allow. A request with `Authorization: Bearer` is judged by that alone,
even if it also has a session: browsers do not send the header by themselves, so it needs no CSRF token.

    router = Router(tags=["records"], auth=Staff(Scope.READ, may_look))
    @router.post(…, auth=Staff(Scope.OPERATE, may_operate))
    @router.post(…, auth=Staff(Scope.WRITE, "jobs.add_throttle"))
"""

from collections.abc import Callable
from typing import Any, cast

from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from api import tokens
from api.errors import ApiError
from api.models import ApiToken, Scope
from declarations.surfaces.web.permissions import may_look, may_operate
from operations.limits import Limit, network_of

FAILED_TOKENS = Limit("staff-token", 20, 60)
"""The limit per network of the sender. A valid token is accepted anyway: behind a proxy all have one address."""

MISSING_PERMISSION = "this account lacks the permission; ask an administrator"

Allowed = Callable[[HttpRequest], bool]


class Staff(AuthBase):
    """A member of staff, by session or token, with the permissions that `allowed` names.

    `scope`: the scope that a token must have (any if None). `allowed`: names of permissions, such as
    `jobs.view_throttle`, or functions of the request, each of which is enough; if there are none, any member of staff
    is allowed.
    """

    openapi_type = "http"
    openapi_scheme = "bearer"

    def __init__(self, scope: Scope | None = Scope.READ, *allowed: str | Allowed) -> None:
        super().__init__()
        self.scope, self.allowed = scope, allowed

    def __call__(self, request: HttpRequest) -> Any:
        """The user. Raises: ApiError (401, 403, 429)."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            user = self._user_of_token(request, text.strip())
        else:
            user = self._user_of_session(request)
        if not user.is_staff:
            raise ApiError(403, hint="this account is not staff; ask an administrator")
        if self.allowed and not any(_allows(each, request) for each in self.allowed):
            raise ApiError(403, hint=MISSING_PERMISSION)
        return user

    def _user_of_token(self, request: HttpRequest, text: str) -> Any:
        token = tokens.authenticate(text)
        if token is None:
            FAILED_TOKENS.spend(network_of(request.META["REMOTE_ADDR"]))
            raise ApiError(401)
        request.user = cast(Any, token.user)
        request.api_token = token  # type: ignore[attr-defined]
        if self.scope is not None and self.scope not in token.scopes:
            raise ApiError(403, f"this token lacks the scope `{self.scope}`", "issue one that has it")
        return token.user

    def _user_of_session(self, request: HttpRequest) -> Any:
        if not request.user.is_authenticated:
            raise ApiError(401)
        if check_csrf(request) is not None:
            raise ApiError(403, "the CSRF token is missing or wrong", "send it as the header X-CSRFToken")
        return request.user


def _allows(allowed: str | Allowed, request: HttpRequest) -> bool:
    return bool(request.user.has_perm(allowed)) if isinstance(allowed, str) else allowed(request)


def token_of(request: HttpRequest) -> ApiToken | None:
    """The token by which a request was accepted; None if it was accepted by session."""
    return getattr(request, "api_token", None)


def user_of(request: HttpRequest) -> AbstractBaseUser:
    """The user by whom, or in whose name, a request was accepted."""
    return cast(AbstractBaseUser, request.user)


def name_of(request: HttpRequest) -> str:
    """The name of that user."""
    return user_of(request).get_username()


def looking() -> Staff:
    """Callers who may see records and their outcomes."""
    return Staff(Scope.READ, may_look)


def operating() -> Staff:
    """Callers who may retry and cancel records."""
    return Staff(Scope.OPERATE, may_operate)


def viewing(model: str, *others: str | Allowed) -> Staff:
    """Callers who may see rows of a model, such as `jobs.throttle`: those who may view or change them, as in the admin,
    or whom one of `others` allows.
    """
    app, _, name = model.partition(".")
    return Staff(Scope.READ, f"{app}.view_{name}", f"{app}.change_{name}", *others)


def writing(verb: str, model: str) -> Staff:
    """Callers who may `add`, `change` or `delete` rows of a model, such as `jobs.throttle`."""
    app, _, name = model.partition(".")
    return Staff(Scope.WRITE, f"{app}.{verb}_{name}")
