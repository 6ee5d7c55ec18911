from django.apps import AppConfig


class SourcesConfig(AppConfig):
    name = "sources"
    verbose_name = "Sources"

    def ready(self) -> None:
        """Register the kind `backup`: its handlers, its emission, and what follows a settle of it."""
        from django.db.models.signals import post_delete

        from delivery.references import Referring, referring
        from jobs.handlers import Kind, later, later_async, registry
        from operations.backlog import IN_NEED
        from schedules.capacity import batches_provided
        from schedules.providers import add_provider
        from sources import planning
        from sources.models import Assignment, Policy, Repository, Source
        from sources.planning import names

        of_policies = (Policy, "ping_url", False, "schedule__name")
        for each in (
            *((Source, "secret"), (Source, "secrets")),
            *((Repository, "secrets"), (Repository, "key", True)),
            of_policies,
        ):
            referring.append(Referring(*each))
        written = later("sources.backups.results:write_down")
        opening, warm = planning.reopen, _load
        registry.add(Kind(planning.KIND, planning.AVAILABILITY, written, opening, warm_up=warm))
        for queue in (planning.ARRIVALS, planning.AVAILABILITY):
            registry.handler(planning.KIND, queue=queue)(later_async("sources.availability.check:ask_source"))
        registry.handler(planning.KIND, queue=planning.BACKUPS)(later("sources.backups.handler:copy_source"))
        plain = planning.plain_openings
        for kind, module, does, opens in (
            (planning.RETENTION, "sources.backups.retention", "remove_points", plain),
            (planning.CHECK, "sources.backups.check", "check_files", plain),
            (planning.COPY, "sources.backups.copies", "copy_points", planning.copy_openings),
            (planning.DRILL, "sources.restores.drills", "run_drill", plain),
        ):
            registry.add(Kind(kind, planning.AVAILABILITY, later(f"{module}:write_down"), opens))
            registry.handler(kind, queue=planning.AVAILABILITY)(later_async("sources.backups.upkeep:hand_on"))
            registry.handler(kind, queue=planning.BACKUPS)(later(f"{module}:{does}"))
        add_provider("assignments", planning.emit_batches, catch_up=planning.catch_up)
        removed = later("sources.removing:write_down")
        registry.add(Kind(planning.REMOVAL, planning.AVAILABILITY, after_settle=removed))
        registry.handler(planning.REMOVAL, queue=planning.AVAILABILITY)(later_async("sources.backups.upkeep:hand_on"))
        registry.handler(planning.REMOVAL, queue=planning.BACKUPS)(later("sources.removing:remove"))
        registry.add(Kind(names.PING, home_queue=names.CALLBACKS, max_seconds=60))
        registry.handler(names.PING, queue=names.CALLBACKS)(later_async("sources.outcomes:ping"))
        of_itself = later("sources.self_backup.backing_up:write_down")
        registry.add(Kind(names.SELF_BACKUP, after_settle=of_itself, max_seconds=6 * 3600))
        registry.handler(names.SELF_BACKUP, queue="default")(later("sources.self_backup.backing_up:self_backup"))
        registry.add(Kind(names.LOOK, after_settle=later("sources.backups.looks:write_down"), max_seconds=900))
        registry.handler(names.LOOK, queue="default")(later("sources.backups.looks:look"))
        restored = later("sources.restores.handler:write_down")
        registry.add(Kind(names.RESTORE, home_queue=names.RESTORES, after_settle=restored))
        registry.handler(names.RESTORE, queue=names.RESTORES)(later("sources.restores.handler:run_restore"))
        for task in (
            "sources.planning.long_waits:correct",
            "sources.backups.retention:plan_retired",
            "sources.self_backup.backing_up:plan_for_today",
            "sources.backups.check:plan",
            "sources.backups.looks:plan",
            "sources.backups.copies:plan",
            "sources.restores.drills:plan",
            "sources.restores.asking:end_cancelled",
            "sources.alerts:look",
            "sources.agents.tokens:prune",
            "sources.backups.staging:remove_unused",
            "sources.hooks.running:pay_owed",
        ):
            registry.add_periodic(later(task))
        registry.at_start.append(later("sources.hooks.running:pay_owed"))
        batches_provided[:] = [later("sources.previews:batches_of_policies")]
        registry.prunes += [later("sources.ledger:prune"), later("sources.restores.asking:prune")]
        IN_NEED.append(later("sources.status:in_need"))
        post_delete.connect(later("sources.retiring:end_after_deletion"), sender=Assignment, weak=False)


def _load() -> None:
    """Before the first record, whose source would wait for it."""
    from sources.availability import check  # noqa: F401
    from sources.backups import handler, results  # noqa: F401
