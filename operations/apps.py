from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "operations"
    verbose_name = "Operations"

    def ready(self) -> None:
        from audit.tables import follow
        from declarations.surfaces import (
            patience,  # noqa: F401 - makes each connection a line that can be given up
        )
        from jobs.handlers import later, registry
        from jobs.models import Hold, Origin, PausedQueue, RetryPolicy, Throttle
        from operations import (
            checks,  # noqa: F401 - registers the system checks
            considerations,
            totals,
        )

        registry.at_claim.append(considerations.log_claim)
        registry.at_end.append(totals.count)
        registry.at_heartbeat.append(totals.write)
        for model in (RetryPolicy, PausedQueue, Origin):
            follow(model)
        follow(Throttle, also=("paused_until", "paused_why"))
        over = "EXISTS (SELECT FROM jobs_throttle WHERE max_in_flight = 0 AND paused_until <= clock.now)"
        registry.add_periodic(later("operations.throttle_pauses:resume_those_over"), due=over)
        follow(Hold, title="'everything'")
        registry.prunes.append(later("operations.silences:prune"))
