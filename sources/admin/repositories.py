"""Repositories, and what their circuit breakers say."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs import breakers
from jobs.models import Breaker
from operations.admin.breakers import link_to
from operations.admin.declared import DeclaredAdmin, DeclaredForm
from sources.edits import Repositories
from sources.models import Repository
from sources.repository_breaker import OPEN_BREAKER_OF_REPOSITORY, guarded_by


class RepositoryForm(DeclaredForm):
    service = Repositories

    class Meta:
        model = Repository
        fields = ("name", "location")


@admin.register(Repository)
class RepositoryAdmin(DeclaredAdmin):
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
        text, waiting = breakers.describe(found), breakers.held_by(found)
        return format_html("{}: {}; {} records wait for it", link_to(found), text, f"{waiting:,}")
