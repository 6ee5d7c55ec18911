from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "api"
    verbose_name = "API"

    def ready(self) -> None:
        from api import pruning
        from jobs.handlers import registry

        registry.add_periodic(pruning.prune)
