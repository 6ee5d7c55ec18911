"""The admin and its theme, without loading a page: `urls.py` finds the pages, and no command but the web needs them."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class Theme(AppConfig):
    """Templates and static files. The theme's own configuration makes its site, with all forms, in each command."""

    name = "unfold"


class AdminPages(SimpleAdminConfig):
    """The site is made when a page asks for it."""

    default_site = "unfold.sites.UnfoldAdminSite"
