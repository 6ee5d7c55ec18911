from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "operations"
    verbose_name = "Operations"

    def ready(self) -> None:
        from operations import (
            checks,  # noqa: F401 - registers the system checks
            rescheduling,  # noqa: F401 - registers what an edit of a retry policy rolls out
            rollouts,
        )

        rollouts.register_kind()
