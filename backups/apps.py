from django.apps import AppConfig
from django.conf import settings

PERIODIC = {
    "backups.self_backup.backing_up:plan_for_today": f"""(SELECT) AS the_scheduler
            WHERE ({settings.SELF_BACKUP_TO not in ("", "none")} OR EXISTS (SELECT FROM sources_repository))
              AND NOT EXISTS (
                  SELECT FROM sources_selfbackup WHERE day = (clock.now AT TIME ZONE 'UTC')::date)""",
    "backups.upkeep.retention:plan_retired": "sources_source WHERE retired_at IS NOT NULL",
    "backups.upkeep.checks:plan": "sources_policy WHERE check_within IS NOT NULL",
    "backups.upkeep.looks:plan": "sources_repository",
    "backups.upkeep.copies:plan": "sources_policy WHERE copy_to_id IS NOT NULL",
    "backups.restores.drills:plan": "sources_policy WHERE drill_every IS NOT NULL",
    "backups.restores.requests:end_cancelled": "sources_restore WHERE ended_at IS NULL",
    "backups.copying.staging:remove_unused": "",
    "backups.hooks.running:pay_owed": "",
}
"""Task of every minute → the rows without which it has nothing to do."""


class BackupsConfig(AppConfig):
    name = "backups"
    verbose_name = "Backups"

    def ready(self) -> None:
        """Register the kinds of records that work on repositories: their handlers, and the work after their settles."""
        from jobs.handlers import Kind, later, later_async, one_by_one, registry
        from sources import planning
        from sources.planning import names

        written = later("backups.copying.results:write_down")
        registry.add(Kind(planning.KIND, planning.AVAILABILITY, written, planning.reopen, warm_up=_load))
        registry.handler(planning.KIND, queue=planning.BACKUPS)(later("backups.copying.handler:copy_source"))
        handed_on, plain = later_async("backups.upkeep.records:hand_on"), planning.plain_openings
        for kind, module, does, opens in (
            (planning.RETENTION, "backups.upkeep.retention", "remove_points", plain),
            (planning.CHECK, "backups.upkeep.check_runs", "check_files", plain),
            (planning.COPY, "backups.upkeep.copies", "copy_points", planning.copy_openings),
            (planning.DRILL, "backups.restores.drills", "run_drill", plain),
            (planning.REMOVAL, "backups.upkeep.removals", "remove", None),
        ):
            registry.add(Kind(kind, planning.AVAILABILITY, one_by_one(later(f"{module}:write_down")), opens))
            registry.handler(kind, queue=planning.AVAILABILITY)(handed_on)
            registry.handler(kind, queue=planning.BACKUPS)(later(f"{module}:{does}"))
        registry.add(Kind(names.PING, home_queue=names.CALLBACKS, max_seconds=60))
        registry.handler(names.PING, queue=names.CALLBACKS)(later_async("backups.copying.notifications:ping"))
        of_itself = one_by_one(later("backups.self_backup.backing_up:write_down"))
        registry.add(Kind(names.SELF_BACKUP, after_settle=of_itself, max_seconds=6 * 3600))
        registry.handler(names.SELF_BACKUP, queue="default")(later("backups.self_backup.backing_up:self_backup"))
        looked = one_by_one(later("backups.upkeep.repository_trials:write_down"))
        registry.add(Kind(names.LOOK, after_settle=looked, max_seconds=900))
        registry.handler(names.LOOK, queue="default")(later("backups.upkeep.repository_trials:look"))
        restored = one_by_one(later("backups.restores.handler:write_down"))
        registry.add(Kind(names.RESTORE, home_queue=names.RESTORES, after_settle=restored))
        registry.handler(names.RESTORE, queue=names.RESTORES)(later("backups.restores.handler:run_restore"))
        for task, due in PERIODIC.items():
            registry.add_periodic(later(task), due=due and f"EXISTS (SELECT FROM {due})")
        registry.at_start.append(later("backups.hooks.running:pay_owed"))
        registry.at_start.append(later("backups.restores.left_behind:remove"))
        registry.prunes.append(later("backups.restores.requests:prune"))


def _load() -> None:
    """Load the handlers before the first record, whose source would wait for that."""
    from backups.copying import handler, results  # noqa: F401
    from sources.availability import check  # noqa: F401
