"""URLs of the project: the dashboard with the front page, the admin, the API, and the pictures of retry policies."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from api.root import api


def favicon(request: HttpRequest) -> HttpResponse:
    """The icon at the address where browsers look for it unasked."""
    return redirect(static("backupsched/favicon.svg"), permanent=False)


admin.autodiscover()

urlpatterns = [
    path("favicon.ico", favicon, name="favicon"),
    path("admin/", admin.site.admin_view(RedirectView.as_view(pattern_name="home")), name="no-list-of-tables"),
    path("admin/", admin.site.urls),
    path("api/", api.urls),
    path("backoff/", include("operations.backoff.views")),
    path("", include("dashboard.urls")),
]
