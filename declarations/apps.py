from django.apps import AppConfig


class DeclarationsConfig(AppConfig):
    """Has no tables: Django finds its pages and style sheet by it."""

    name = "declarations"
    verbose_name = "Declarations"
