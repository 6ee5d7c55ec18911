from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "fleet"
    verbose_name = "Fleet"

    def ready(self) -> None:
        """Register the functions that the backlog asks: sources that need attention, progress, and names to search."""
        from jobs.handlers import later, registry
        from operations.backlog import CALLED, IN_NEED, PROGRESS
        from sealing.references import at_set

        registry.add_periodic(later("fleet.pauses:resume_those_over"))
        at_set.append(later("backups.trying_again:after_secret"))
        PROGRESS.append(later("backups.progress:of_records"))
        IN_NEED["sources"] = later("fleet.status:in_need")
        CALLED.append(later("fleet.status:subjects_called"))
