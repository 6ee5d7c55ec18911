"""The circuit breakers: which are open and since when, who waits for them, and two buttons."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from declarations.surfaces.admin.base import ReadOnlyAdmin, ago, anchor, column, foldable, link, shortened
from declarations.surfaces.admin.confirmations import AsksFirst, asked, is_confirmed, question
from declarations.surfaces.web.permissions import may_look
from external.formatting import several
from jobs import breakers
from jobs.breakers import state_of, verbs
from jobs.models import Breaker
from jobs.states import WaitingFor

STATE_LABELS = {"closed": "success", "open": "danger", "on trial": "warning"}

CLOSE_MEANS = (
    "Everything that waits for it becomes ready at the next tick, in claim order. If it still fails, it opens again "
    "after as many failures as before."
)
PROBE_MEANS = (
    "The first record that waits for it is let through as a trial at the next tick. The others continue to wait."
)

Verb = Callable[..., int]


def link_to(breaker: Breaker | None) -> SafeString | str:
    """The state of a breaker, as a link to its page; no link for a breaker that has never failed and has no row."""
    return link("jobs_breaker_change", breaker.pk, state_of(breaker)) if breaker else "closed"


def _waiting(breaker: Breaker) -> SafeString:
    query = urlencode({"waiting_for__exact": WaitingFor.BREAKER.value, "breaker__id__exact": breaker.pk})
    return anchor(f"{reverse('admin:jobs_backlogrecord_changelist')}?{query}", f"{breakers.held_by(breaker):,}")


@admin.register(Breaker)
class BreakerAdmin(AsksFirst[Verb], ReadOnlyAdmin):
    """All breakers there are: one for each subject that has failed at least once. The open ones come first."""

    when_empty = "A breaker is listed here once something has failed for every record, such as a full repository."
    called = "breaker"
    actions = ("close_now", "probe_now")
    actions_detail = ("close_this", "probe_this")
    list_display = ("guarded", "state", "failures", "since", "trials", "probe_at", "records_waiting", "short_error")
    list_filter = (("opened_at", admin.EmptyFieldListFilter),)
    search_fields = ("title", "key", "last_error")
    fieldsets = (
        (None, {"fields": ("title", "key", "state", "records_waiting", "last_error")}),
        ("Failures", {"fields": ("failures", "last_failure_at", "since")}),
        ("Trials", {"fields": ("trials", "on_trial", "probe_at")}),
    )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow users who may view records to view the breakers that hold them."""
        return may_look(request) or bool(request.user.has_perm("jobs.view_breaker"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Breaker]:
        found: QuerySet[Breaker] = super().get_queryset(request)
        return found.order_by(F("opened_at").desc(nulls_last=True), "title", "pk")

    close_now, close_this = asked("close_now", "Close now", CLOSE_MEANS, verbs.close, "lock_open")
    probe_now, probe_this = asked("probe_now", "Probe now", PROBE_MEANS, verbs.probe_now, "science")

    state = column(state_of, "state", label=STATE_LABELS)
    since = column("opened_at", "open for", lambda at: ago(at).removesuffix(" ago"))
    on_trial = column("trial_id", "on trial", lambda pk: link("jobs_backlogrecord_change", pk, f"record {pk}"),
                      ordered=False)  # fmt: skip
    records_waiting = column(_waiting, "records waiting")
    short_error = column("last_error", "last error", shortened, ordered=False)
    guarded = column(foldable, "breaker", ordered="title")

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Breaker], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        if not is_confirmed(request):
            lines = [
                f"{each}: {state_of(each)}, waiting for it: {several(breakers.held_by(each), 'record')}"
                for each in rows
            ]
            return question(request, name, means, lines)
        changed = verb(list(rows.values_list("pk", flat=True)), by=str(request.user))
        text = several(changed, "open breaker") if changed else "none of the chosen ones is open"
        self.message_user(request, f"{name}: {text}.", messages.SUCCESS if changed else messages.WARNING)
        return None
