from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "schedules"
    verbose_name = "Schedules"

    def ready(self) -> None:
        from audit.tables import follow, named
        from declarations import uses
        from jobs import (
            rescheduling,  # noqa: F401 - registers the rollout of edited retry policies
            rollouts,
        )
        from jobs.handlers import later, registry
        from schedules import batch_ends, batches, emitter, verbs
        from schedules.models import Schedule

        registry.step = emitter.EMIT
        registry.prunes[:] = [*(each for each in registry.prunes if each is not batches.prune), batches.prune]
        registry.before_retry[:], registry.at_retry[:] = [batch_ends.hold], [batch_ends.take_back]
        uses.append(later("schedules.obstacles:use_of"))
        registry.add_periodic(batches.keep, due="EXISTS (SELECT FROM schedules_trigger WHERE finished_at IS NULL)")
        registry.add_periodic(emitter.correct_watermarks, rare=True)
        over = "EXISTS (SELECT FROM schedules_schedule WHERE NOT enabled AND paused_until <= clock.now)"
        registry.add_periodic(verbs.resume_those_over, due=over)
        rollouts.register_kind()
        follow(Schedule, title=named("jobs_origin", "origin_id"), also=("paused_until", "paused_why"))
