from django.apps import AppConfig


class AlertingConfig(AppConfig):
    name = "alerting"
    verbose_name = "Alerts"

    def ready(self) -> None:
        """Register the round of the minute, the open alerts, and the routes of a fleet file."""
        from alerting.models import AlertRoute
        from audit.tables import follow, named
        from declarations import fleet_sections, uses
        from jobs.handlers import later, registry
        from operations.backlog import HINTS, IN_NEED
        from operations.finding import LATE
        from sealing.references import ReferringField, referring

        fleet_sections["alert_routes"] = "alerting.declarations.Routes"
        referring.append(ReferringField(AlertRoute, "url"))
        uses.append(later("alerting.declarations:use_of"))
        registry.add_periodic(later("alerting.rounds:in_background"))
        IN_NEED.update(alerts=later("alerting.raising:in_need"), messages=later("alerting.sending:in_need"))
        HINTS.append(later("alerting.conditions:hints"))
        LATE.append(later("alerting.watching:late_before"))
        follow(AlertRoute)
        follow(AlertRoute.policies.through, title=named("alerting_alertroute", "alertroute_id"))
        registry.prunes.append(later("alerting.raising:prune"))
