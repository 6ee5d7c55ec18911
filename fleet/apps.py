from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "fleet"
    verbose_name = "Fleet"

    def ready(self) -> None:
        """Say which sources are in need where the summary of the backlog is shown."""
        from jobs.handlers import later
        from operations.backlog import IN_NEED

        IN_NEED["sources"] = later("fleet.status:in_need")
