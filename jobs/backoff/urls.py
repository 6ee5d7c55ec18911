"""The pages of pictures, under `backoff/`, for who may log in to the admin."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.urls import path
from django.views.decorators.http import require_safe

from jobs.backoff import views


def _to_look_at(view: Callable[..., Any]) -> Callable[..., Any]:
    return admin.site.admin_view(require_safe(view))


urlpatterns = [
    path("", _to_look_at(views.page), name="backoff"),
    path("picture.svg", _to_look_at(views.picture), {"form": "svg"}, name="backoff-svg"),
    path("picture.png", _to_look_at(views.picture), {"form": "png"}, name="backoff-png"),
    path("figures.json", _to_look_at(views.figures), name="backoff-json"),
]
