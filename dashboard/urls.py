"""Pages at the top of the site, for staff: the home page, the matrix of sources and days, the effects of a change, and
the documentation."""

from django.urls import path

from dashboard import home, matrix, pages, start_estimates, what_if

urlpatterns = [
    path("", home.home, name="home"),
    path("home/facts/", home.home_facts, name="home-facts"),
    path("home/act/", home.act, name="home-act"),
    path("matrix/", matrix.matrix_page, name="matrix"),
    path("matrix/<int:source>/<str:day>", matrix.matrix_day, name="matrix-day"),
    path("expected/source/<int:source>/", start_estimates.of_source, name="expected-of-source"),
    path("expected/record/<int:record>/", start_estimates.of_record, name="expected-of-record"),
    path("what-if/", what_if.what_if_page, name="what-if"),
    path("docs/", pages.document, name="docs"),
    path("docs/<path:name>", pages.document, name="docs-of"),
]
