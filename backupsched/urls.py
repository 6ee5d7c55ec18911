"""URLs of the project: the admin, which is also the front page, and the API."""

from django.contrib import admin
from django.urls import path
from django.views.generic import RedirectView

from sources.api import api

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", api.urls),
    path("", RedirectView.as_view(pattern_name="admin:index"), name="home"),
]
