from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Backlog"

    def ready(self) -> None:
        from jobs import rollouts

        rollouts.register_kind()
