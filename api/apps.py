from importlib.util import find_spec
from pathlib import Path

from django.apps import AppConfig


class ApiConfig(AppConfig):
    default = True
    name = "api"
    verbose_name = "API"

    def ready(self) -> None:
        from api.models import ApiToken
        from audit.tables import follow
        from jobs.handlers import later, registry

        follow(ApiToken, also=("revoked_at",), hidden=("digest",), without=("used_at", "created_at"))
        ended = " OR ".join(
            f"EXISTS (SELECT FROM {table} WHERE {column} < clock.now)"
            for table, column in (
                ("api_idempotencykey", "created_at"),
                ("operations_ratecount", "ends_at"),
                ("api_apitoken", "LEAST(revoked_at, expires_at)"),
            )
        )
        registry.add_periodic(later("api.old_rows:prune"), rare=True, due=ended)


class FilesOfNinja(AppConfig):
    """The templates and static files of django-ninja, without loading it: no command but the web needs it."""

    name = "api.apps"
    label = "ninja"
    path = str(Path(getattr(find_spec("ninja"), "origin", "")).parent)
