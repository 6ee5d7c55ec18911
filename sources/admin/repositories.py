"""Repositories, and what their circuit breakers say."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs import breakers
from jobs.models import Breaker
from operations.admin.breakers import link_to
from sources import edits
from sources.admin.reach import ReachAdmin, ReachForm
from sources.backups import reach
from sources.models import Repository
from sources.repository_breaker import OPEN_BREAKER_OF_REPOSITORY, guarded_by


class RepositoryForm(ReachForm):
    def check_reach(self) -> Sequence[str]:
        reach.check_repository(self.account, self.instance)
        return ()


@admin.register(Repository)
class RepositoryAdmin(ReachAdmin):
    """Where backups go, and whether anything goes there now."""

    list_display = ("name", "location", "breaker_state")
    search_fields = ("name", "location")
    form = RepositoryForm
    readonly_fields = ("breaker",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Repository]:
        found: QuerySet[Repository] = super().get_queryset(request)
        return found.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ("name", "location", "breaker") if obj else ("name", "location")

    @display(description="breaker", label={"closed": "success", "open": "danger"})
    def breaker_state(self, repository: Any) -> str:
        return "open" if repository.open_breaker else "closed"

    @admin.display(description="breaker")
    def breaker(self, repository: Repository) -> SafeString | str:
        """Its state with a link; while it is open also why, and who waits."""
        found = Breaker.objects.filter(key=guarded_by(repository).key).first()
        if found is None or not found.is_open:
            return link_to(found)
        told, waiting = breakers.describe(found), breakers.held_by(found)
        return format_html("{}: {}; {} records wait for it", link_to(found), told, f"{waiting:,}")

    def save_model(self, request: HttpRequest, obj: Repository, form: Any, change: bool) -> None:
        """Its directory is made when it is missing, as by a fleet import. What is corrected is tried at once."""
        for told in edits.save_repository(obj, form.changed_data if change else None, by=str(request.user)):
            self.message_user(request, f"{told}.", messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: Repository) -> None:
        """Its breaker goes with it."""
        edits.delete_repositories([obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Repository]) -> None:
        edits.delete_repositories(queryset)
