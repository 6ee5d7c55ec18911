from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Backlog"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let all commands, Django's too, read options by their whole names: Django has no setting for that."""
        from django.core.management import base

        from jobs.management.arguments import ExactParser

        base.CommandParser = ExactParser  # type: ignore[misc]
