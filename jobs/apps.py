from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Backlog"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let all commands, Django's too, read options by their whole names: Django has no setting for that. Register
        the kind of record that continues an edit, and the effects of an edit of a retry policy.
        """
        from django.core.management import base

        from jobs import (
            rescheduling,  # noqa: F401 - registers what an edit of a retry policy rolls out
            rollouts,
        )
        from jobs.management.arguments import ExactParser

        base.CommandParser = ExactParser  # type: ignore[misc]
        rollouts.register_kind()
