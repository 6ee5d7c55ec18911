"""URLs of the project: the admin, which is also the front page, the API, and the pictures of retry policies."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from api.root import api

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", api.urls),
    path("backoff/", include("operations.backoff.views")),
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
]
