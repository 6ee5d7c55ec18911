from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Backlog"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Let all commands, Django's too, read options by their whole names: Django has no setting for that. Register
        the kind of record that continues an edit, and the effects of an edit of a retry policy. Let migrations note
        which programs they need.
        """
        from django.core.management import base
        from django.db.models.signals import post_migrate, pre_migrate

        from jobs import (
            contractions,
            rescheduling,  # noqa: F401 - registers the rollout of edited retry policies
            rollouts,
        )
        from jobs.management.arguments import ExactParser

        base.CommandParser = ExactParser  # type: ignore[misc]
        rollouts.register_kind()
        pre_migrate.connect(contractions.note_before, sender=self)
        post_migrate.connect(contractions.note_after, sender=self)
