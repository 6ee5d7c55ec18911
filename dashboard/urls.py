"""Pages at the top of the site, for staff: the home page, the matrix of sources and days, and the documentation."""

from django.urls import path

from dashboard import actions, documentation, matrix_views, views

urlpatterns = [
    path("", views.home, name="home"),
    path("home/facts/", views.home_facts, name="home-facts"),
    path("home/act/", actions.act, name="home-act"),
    path("matrix/", matrix_views.matrix_page, name="matrix"),
    path("matrix/<int:source>/<str:day>", matrix_views.matrix_day, name="matrix-day"),
    path("docs/", documentation.document, name="docs"),
    path("docs/<path:name>", documentation.document, name="docs-of"),
]
