from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Backlog"

    def ready(self) -> None:
        from jobs import checks, delivery, rollouts  # noqa: F401 - checks registers the system checks

        delivery.register()
        rollouts.register_kind()
