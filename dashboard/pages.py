"""What all pages of the dashboard share: for staff only, and in the frame of the admin."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe


def staff(view: Callable[..., HttpResponse]) -> Callable[..., Any]:
    """A page that staff may look at (GET); others are led to the login."""
    return admin.site.admin_view(require_safe(view))


def page(request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
    """`template`, which extends `dashboard/base.html`, with the menu and the title."""
    return TemplateResponse(request, template, admin.site.each_context(request) | {"title": title} | context)
