from django.apps import AppConfig

OF_POLICY = """(
    SELECT o.name FROM jobs_origin AS o JOIN sources_policy AS p ON p.schedule_id = o.id
     WHERE p.id = ($1 ->> 'policy_id')::bigint)"""


PAUSE = ("paused_until", "paused_why")


class SourcesConfig(AppConfig):
    name = "sources"
    verbose_name = "Sources"

    def ready(self) -> None:
        """Register the handlers that ask sources whether they are there, emit their backups, and keep their days."""
        from django.conf import settings
        from django.db.models.signals import post_delete

        from audit.tables import follow, named
        from external import special_addresses
        from jobs.handlers import later, later_async, registry
        from schedules.capacity import batches_provided
        from schedules.providers import add_provider
        from sealing.references import ReferringField, referring
        from sources import planning
        from sources.models import AgentToken, Assignment, Policy, RecoveryKey, Repository, Restore, Source

        special_addresses.loopback_is_open = settings.LOOPBACK
        follow(Source, also=("paused_at", "paused_until", "paused_why", "paused_by_user", "retired_at"))
        follow(Repository)
        follow(Policy, title=named("jobs_origin", "schedule_id"), also=PAUSE, hidden=("ping_url",))
        follow(Assignment, title=f"{named('sources_source', 'source_id')} || ' under ' || {OF_POLICY}")
        follow(AgentToken, title=named("sources_source", "source_id"), hidden=("digest",), without=("used_at",))
        follow(RecoveryKey, title="'the scheduler'", hidden=("age_identity", "sealed_passphrase"))
        of_policies = (Policy, "ping_url", False, "schedule__name")
        for each in (
            *((Source, "secret"), (Source, "secrets"), (Restore, "secret", False, "point")),
            *((Repository, "secrets"), (Repository, "key", True)),
            of_policies,
        ):
            referring.append(ReferringField(*each))
        for queue in (planning.ARRIVALS, planning.AVAILABILITY):
            registry.handler(planning.KIND, queue=queue)(later_async("sources.availability.check:ask_source"))
        has_assignments = "EXISTS (SELECT FROM sources_assignment)"
        add_provider("assignments", planning.emit_batches, catch_up=planning.catch_up, due=has_assignments)
        batches_provided[:] = [later("sources.planning.previews:batches_of_policies")]
        registry.add_periodic(later("sources.protection.overdue_assignments:look"), due=has_assignments)
        registry.add_periodic(later("sources.planning.clock_repairs:correct"), rare=True, due=has_assignments)
        ended = " OR ".join(
            f"EXISTS (SELECT FROM {table} WHERE {column} < clock.now - interval '1 day')"  # kept for longer
            for table, column in (("sources_agenttoken", "revoked_at"), ("sources_enrolmentcode", "expires_at"))
        )
        registry.add_periodic(later("sources.agents.tokens:prune"), rare=True, due=ended)
        registry.prunes.append(later("sources.protection.ledger:prune"))
        post_delete.connect(later("sources.planning.retirement:end_after_deletion"), sender=Assignment, weak=False)
