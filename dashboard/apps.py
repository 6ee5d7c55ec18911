from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        """Register what the minute's round keeps for the home page."""
        from jobs.handlers import registry

        def keep_days() -> int:
            from dashboard import days

            return days.keep()

        registry.add_periodic(keep_days)
