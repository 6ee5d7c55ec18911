"""The pages of pictures, under `backoff/`, for who may log in to the admin."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_safe

from operations.backoff import views
from operations.limits import LimitOfOneProcess, TooMany

DRAWN = LimitOfOneProcess("backoff", 60, 60)
"""Per account. Each is up to a second of a processor; `forms.MOST_DOTS` bounds what one may take."""


def _to_look_at(view: Callable[..., Any]) -> Callable[..., Any]:
    def limited(request: HttpRequest, **kwargs: Any) -> Any:
        try:
            DRAWN.spend(str(request.user.pk))
        except TooMany as error:
            headers = {"Retry-After": str(error.seconds)}
            return HttpResponse(f"{error}\n", status=429, headers=headers, content_type="text/plain")
        return view(request, **kwargs)

    return admin.site.admin_view(require_safe(limited))


urlpatterns = [
    path("", _to_look_at(views.page), name="backoff"),
    path("picture.svg", _to_look_at(views.picture), {"form": "svg"}, name="backoff-svg"),
    path("picture.png", _to_look_at(views.picture), {"form": "png"}, name="backoff-png"),
    path("figures.json", _to_look_at(views.figures), name="backoff-json"),
]
