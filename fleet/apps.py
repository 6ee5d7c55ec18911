from django.apps import AppConfig

PAUSE_IS_OVER = """
EXISTS (SELECT FROM sources_source WHERE paused_at IS NOT NULL AND paused_until <= clock.now)
OR EXISTS (SELECT
             FROM sources_policy p
             JOIN schedules_schedule s ON s.origin_id = p.schedule_id
            WHERE NOT s.enabled AND p.paused_until <= clock.now)
"""


class FleetConfig(AppConfig):
    name = "fleet"
    verbose_name = "Fleet"

    def ready(self) -> None:
        """Register the functions that the backlog asks: sources that need attention, progress, and names to search."""
        from jobs.handlers import later, registry
        from operations.backlog import CALLED, IN_NEED, PROGRESS
        from sealing.references import at_set

        registry.add_periodic(later("fleet.pauses:resume_those_over"), due=PAUSE_IS_OVER)
        at_set.append(later("backups.trying_again:after_secret"))
        PROGRESS.append(later("backups.progress:of_records"))
        IN_NEED["sources"] = later("fleet.status:in_need")
        CALLED.append(later("fleet.status:subjects_called"))
