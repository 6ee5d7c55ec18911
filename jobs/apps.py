from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Backlog"

    def ready(self) -> None:
        from jobs import checks, delivery, rollouts, schedules  # noqa: F401 - checks registers the system checks
        from jobs.api import pruning
        from jobs.handlers import registry

        delivery.register()
        rollouts.register_kind()
        schedules.register()
        registry.add_periodic(pruning.prune)
