from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
    verbose_name = "Dashboard"

    def ready(self) -> None:
        """Register the counts that the minute's round keeps for the home page."""
        from jobs.handlers import later, registry

        registry.add_periodic(later("dashboard.days:keep"), rare=True)
