from django.apps import AppConfig


class SourcesConfig(AppConfig):
    name = "sources"
    verbose_name = "Sources"

    def ready(self) -> None:
        """Register the kind `backup`: its handlers, its emission, and what follows a settle of it."""
        from delivery import stored_secrets
        from jobs.handlers import Kind, registry
        from schedules.providers import add_provider
        from sources import (
            alerts,
            doctor,  # noqa: F401 - registers what the doctor asks of repositories
            planning,
            self_backup,
        )
        from sources.agents import tokens
        from sources.availability.check import ask_source
        from sources.backups import check, retention, upkeep
        from sources.backups.handler import copy_source
        from sources.backups.results import write_down
        from sources.models import Repository, Source
        from sources.restores import asking, drills, handler

        for each in ((Source, "secret"), (Repository, "secrets"), (Repository, "key", True)):
            stored_secrets.referring.append(stored_secrets.Referring(*each))
        opening = planning.next_openings
        registry.add(
            Kind(planning.KIND, home_queue=planning.AVAILABILITY, after_settle=write_down, next_opening=opening)
        )
        for queue in (planning.ARRIVALS, planning.AVAILABILITY):
            registry.handler(planning.KIND, queue=queue)(ask_source)
        registry.handler(planning.KIND, queue=planning.BACKUPS)(copy_source)
        for kind, does, after in (
            (retention.KIND, retention.remove_points, retention.write_down),
            (check.KIND, check.check_files, check.write_down),
            (drills.KIND, drills.run_drill, drills.write_down),
        ):
            registry.add(Kind(kind, planning.AVAILABILITY, after_settle=after, next_opening=planning.plain_openings))
            registry.handler(kind, queue=planning.AVAILABILITY)(upkeep.hand_on)
            registry.handler(kind, queue=planning.BACKUPS)(does)
        add_provider("assignments", planning.emit_batches, catch_up=planning.catch_up)
        registry.add(Kind(self_backup.KIND, max_seconds=6 * 3600, after_settle=self_backup.write_down))
        registry.handler(self_backup.KIND, queue="default")(self_backup.self_backup)
        registry.add(Kind(asking.KIND, home_queue=asking.QUEUE, after_settle=handler.write_down))
        registry.handler(asking.KIND, queue=asking.QUEUE)(handler.run_restore)
        registry.add_periodic(self_backup.plan_for_today)
        registry.add_periodic(check.plan)
        registry.add_periodic(drills.plan)
        registry.add_periodic(alerts.look)
        registry.add_periodic(tokens.prune)
