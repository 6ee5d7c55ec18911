"""The API itself: the rules for all operations. `root` adds the routers."""

import functools
import json
from collections.abc import Callable
from typing import Any

from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.templatetags.static import static
from ninja import NinjaAPI
from ninja.openapi.docs import Swagger
from ninja.openapi.schema import OpenAPISchema

from api.auth import Staff
from api.bodies import ObjectParser, checked
from api.document import Document
from api.errors import MOST_ERRORS, ApiError, add_handlers, database_away, not_valid, shown
from declarations.surfaces.web.error_pages import DATABASE_AWAY


class ApiDocumentPage(Swagger):
    """The page of the document. Requests that are tried on it use the reader's session, with its CSRF token."""

    def __init__(self) -> None:
        super().__init__({"docExpansion": "none", "filter": True, "displayRequestDuration": True})

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        settings = self.settings | {"url": self.get_openapi_url(api, kwargs)}
        context = {"swagger_settings": json.dumps(settings), "api": api, "add_csrf": True}
        page = render(request, self.template, context)
        ours = (
            f'<link rel="stylesheet" href="{static("api/api-docs.css")}">'
            f'<script src="{static("api/api-docs.js")}"></script></head>'
        )
        page.content = page.content.replace(b"</head>", ours.encode(), 1)  # after its style sheet
        return page


class Api(NinjaAPI):
    """An API with problem documents, bounded bodies, and no parameter that it leaves unread."""

    def __init__(self, **options: Any) -> None:
        super().__init__(parser=ObjectParser(), docs=ApiDocumentPage(), docs_decorator=for_staff, **options)
        add_handlers(self)
        self.add_decorator(checked, mode="view")
        self.add_decorator(known_parameters_only)

    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: Any = None) -> OpenAPISchema:
        """The document. It is built for each request, since requests for it are rare."""
        return Document(self, self.get_root_path(path_params or {}) if path_prefix is None else path_prefix)


def known_parameters_only(view: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse query parameters that an operation does not know, or that come twice: a filter that is misspelt or left
    unread would choose other things than were meant. No operation takes a list of values."""
    models = view._ninja_operation.models  # type: ignore[attr-defined]
    known = {
        name for model in models if model.__ninja_param_source__ == "query" for name in model.__ninja_flatten_map__
    }

    @functools.wraps(view)
    def strict_view(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if unknown := sorted({shown(name) for name in request.GET if name not in known}):
            hint = f"there are {', '.join(sorted(known))}" if known else "it has none"
            raise not_valid([(name, "is not a parameter of this operation") for name in unknown[:MOST_ERRORS]], hint)
        if repeated := sorted(name for name, values in request.GET.lists() if len(values) > 1):
            raise not_valid([(name, "is sent more than once") for name in repeated], "ask once for each value")
        return view(request, *args, **kwargs)

    return strict_view


def for_staff(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """The document and its page: for members of staff. With a token, as programs have one, or else a session."""
    by_session: Callable[..., HttpResponse] = staff_member_required(view)
    auth = Staff()

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            if "Authorization" not in request.headers:
                return by_session(request, *args, **kwargs)
            auth(request)
            return view(request, *args, **kwargs)
        except ApiError as error:
            return error.response(request)
        except DATABASE_AWAY as error:
            return database_away(request, error).response(request)

    return guarded
