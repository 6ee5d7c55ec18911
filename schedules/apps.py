from django.apps import AppConfig


class SchedulesConfig(AppConfig):
    name = "schedules"
    verbose_name = "Schedules"

    def ready(self) -> None:
        from jobs.handlers import registry
        from schedules import (
            batches,
            emitter,
            finishing,
            obstacles,
            rescheduling,  # noqa: F401 - registers what an edit of a retry policy rolls out
            rollouts,
        )

        registry.steps[:] = [emitter.EMIT]
        registry.at_start[:] = [emitter.correct_watermarks]
        registry.prunes[:] = [batches.prune]
        registry.batches[:] = [finishing]
        registry.uses[:] = [obstacles.use_of]
        registry.add_periodic(batches.keep)
        rollouts.register_kind()
