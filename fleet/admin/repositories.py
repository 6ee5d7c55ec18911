"""Repositories, the state of their circuit breakers, and the keys of encrypted ones."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import action, display

from backups.upkeep import checks, repository_trials
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question, shown_once
from declarations.surfaces.admin.declared_admin import DeclaredAdmin
from external.formatting import several
from fleet.admin.backups import CHECK, CHECK_MEANS, Verb, done
from fleet.admin.deletion import RemovesInBackground
from fleet.admin.repository_form import SettingsByType
from fleet.repository_edits import KEEP_THE_KEY, TESTING, Repositories, result_of_test
from jobs import breakers
from jobs.models import Breaker
from operations.admin.breakers import link_to
from sources.availability.repository_breaker import OPEN_BREAKER_OF_REPOSITORY, guarded_by
from sources.declarations.reach import EXPORT_KEY
from sources.models import Assignment, Repository

SHOWN = 100


@admin.register(Repository)
class RepositoryAdmin(AsksFirst[Verb], RemovesInBackground, SettingsByType, DeclaredAdmin):
    """Repositories: the destinations of backups, and whether they can be reached now."""

    called = "repository"
    when_empty = "A repository is where backups go: a directory of the workers' hosts, or a folder of a remote."
    list_display = ("name", "format", "kind", "location", "encrypted", "tested", "breaker_state")
    search_fields = ("name", "location")
    readonly_fields = ("breaker", "tested")
    actions_detail = ("test_now", "check_this", "show_key")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Repository]:
        found: QuerySet[Repository] = super().get_queryset(request)
        return found.annotate(open_breaker=OPEN_BREAKER_OF_REPOSITORY)

    def in_the_way(self, rows: list[Any]) -> bool:
        return any(map(Repositories().users, rows))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Make the format and the encryption read-only: they stay as they were made."""
        return (*self.readonly_fields, "format", "encrypted") if obj else self.readonly_fields

    def response_add(self, request: HttpRequest, obj: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show a new key before anything else."""
        response = super().response_add(request, obj, *args, **kwargs)
        return self._key_page(request, obj, obj.new_key) if obj.new_key else response

    def idle_verbs(self, row: Repository) -> set[str]:
        return (set() if row.encrypted else {"show_key"}) | (set() if row.untried else {"test_now"})

    _, check_this = asked("check_now", CHECK, CHECK_MEANS, checks.check_now, "fact_check")

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Repository], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The same question for everything that is stored in a repository."""
        lying = {row: checks.lying_in(row) for row in rows}
        if is_confirmed(request):
            by = str(request.user)
            done(self, request, name, sum(verb(ids, by=by, repository=row) for row, ids in lying.items()))
            return None
        ids = [each for found in lying.values() for each in found]
        return question(request, name, means, Assignment.objects.filter(pk__in=ids[:SHOWN]))

    @action(description="Test now", url_path="test", permissions=["change"], icon="network_check")
    def test_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Let a worker try a repository that could not be used so far."""
        if row := Repository.objects.filter(pk=object_id).first() if object_id.isdecimal() else None:
            repository_trials.try_at_once(row)
            self.message_user(request, f"{row} {TESTING}.")
        return redirect("admin:sources_repository_change", object_id)

    @action(description="Show key", url_path="key", permissions=["export_key"], icon="key")
    def show_key(self, request: HttpRequest, object_id: str) -> HttpResponse:
        back = redirect("admin:sources_repository_changelist")
        repository = Repository.objects.filter(pk=object_id).first() if object_id.isdecimal() else None
        if repository is None:
            return back
        try:
            return self._key_page(request, repository, Repositories(request.user).key(repository))
        except ValueError as error:
            self.message_user(request, f"{error}.", "WARNING")
            return redirect("admin:sources_repository_change", object_id)

    def has_export_key_permission(self, request: HttpRequest, *args: Any) -> bool:
        return bool(request.user.has_perm(EXPORT_KEY))

    def _key_page(self, request: HttpRequest, repository: Repository, key: str) -> HttpResponse:
        back = reverse("admin:sources_repository_change", args=[repository.pk])
        return shown_once(request, f"The key of {repository}", f"{KEEP_THE_KEY}.", key, back)

    @admin.display(description="tested")
    def tested(self, repository: Repository) -> str:
        return result_of_test(repository)

    @admin.display(description="kind")
    def kind(self, repository: Repository) -> str:
        return str(repository.remote.get("type", "directory"))

    @display(description="breaker", label={"closed": "success", "open": "danger"})
    def breaker_state(self, repository: Any) -> str:
        return "open" if repository.open_breaker else "closed"

    @admin.display(description="breaker")
    def breaker(self, repository: Repository) -> SafeString | str:
        """Its state with a link; while it is open also the reason, and the records that wait."""
        found = Breaker.objects.filter(key=guarded_by(repository).key).first()
        if found is None or not found.is_open:
            return link_to(found)
        text, waiting = breakers.describe(found), breakers.held_by(found)
        return format_html("{}: {}; waiting for it: {}", link_to(found), text, several(waiting, "record"))
