"""The circuit breakers: which are open and since when, who waits for them, and two buttons."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.decorators import action, display

from jobs import breakers
from jobs.admin.base import ReadOnlyAdmin, ago, moment
from jobs.admin.operating import button
from jobs.breakers import state_of, verbs
from jobs.models import Breaker
from jobs.states import WaitingFor
from jobs.web.permissions import may_look, may_operate

STATE_LABELS = {"closed": "success", "open": "danger", "on trial": "warning"}

CLOSE_MEANS = (
    "Everything that waits for it becomes ready at the next tick, in claim order. If it still fails, it opens again "
    "after as many failures as before."
)
PROBE_MEANS = "The first record that waits for it is let through as a trial at the next tick. The others wait on."

Verb = Callable[[list[int], str], int]


def _close(ids: list[int], by: str) -> int:
    return verbs.close(ids, by=by)


def _probe(ids: list[int], by: str) -> int:
    return verbs.probe_now(ids, by=by)


class BreakerActions:
    """Close and probe, from the list and from a breaker's page: first a question, then the verb."""

    actions = ("close_now", "probe_now")
    actions_detail = ("close_this_now", "probe_this_now")

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What a breaker lets through are records, so who may operate those may do this."""
        return may_operate(request)

    @admin.action(description="Close now", permissions=["operate"])
    def close_now(self, request: HttpRequest, found: QuerySet[Breaker]) -> HttpResponse | None:
        return self._ask_or_do(request, found, "Close now", CLOSE_MEANS, _close)

    @admin.action(description="Probe now", permissions=["operate"])
    def probe_now(self, request: HttpRequest, found: QuerySet[Breaker]) -> HttpResponse | None:
        return self._ask_or_do(request, found, "Probe now", PROBE_MEANS, _probe)

    @action(description="Close now", url_path="close", permissions=["operate"], icon="lock_open")
    def close_this_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_do_for_one(request, object_id, "Close now", CLOSE_MEANS, _close)

    @action(description="Probe now", url_path="probe", permissions=["operate"], icon="science")
    def probe_this_now(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._ask_or_do_for_one(request, object_id, "Probe now", PROBE_MEANS, _probe)

    def _ask_or_do_for_one(
        self, request: HttpRequest, object_id: str, name: str, means: str, verb: Verb
    ) -> HttpResponse:
        ids = [int(object_id)] if object_id.isdecimal() and len(object_id) < 19 else []
        found = Breaker.objects.filter(pk__in=ids)
        if not found:
            self.message_user(request, f"There is no breaker {object_id}.", messages.WARNING)  # type: ignore[attr-defined]
            return redirect("admin:jobs_breaker_changelist")
        done = redirect("admin:jobs_breaker_change", object_id)
        return self._ask_or_do(request, found, name, means, verb) or done

    def _ask_or_do(
        self, request: HttpRequest, found: QuerySet[Breaker], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        if request.method != "POST" or request.POST.get("confirmed") != "yes":
            return _question(request, found, name, means)
        changed = verb(list(found.values_list("pk", flat=True)), str(request.user))
        told = f"{changed} open breaker{'s' if changed != 1 else ''}" if changed else "none of them is open"
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{name}: {told}.", level)  # type: ignore[attr-defined]
        return None


def _question(request: HttpRequest, found: QuerySet[Breaker], name: str, means: str) -> TemplateResponse:
    kept = [(ACTION_CHECKBOX_NAME, pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
    kept += [(field, request.POST[field]) for field in ("action", "select_across") if field in request.POST]
    lines = [f"{each}: {state_of(each)}, {breakers.held_by(each):,} records wait for it" for each in found]
    content = format_html(
        '<form method="post" class="flex flex-col gap-4">'
        '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'
        '<input type="hidden" name="confirmed" value="yes">{}<p class="font-semibold">{}?</p><p>{}</p>'
        '<ul class="list-disc pl-6">{}</ul><div class="flex gap-3">{}{}</div></form>',
        get_token(request),
        format_html_join("", '<input type="hidden" name="{}" value="{}">', kept),
        name,
        means,
        format_html_join("", "<li>{}</li>", ((line,) for line in lines)),
        button("No, take me back", href=request.get_full_path() if request.method == "POST" else "../change/"),
        button(f"Yes, {name[0].lower()}{name[1:]}", submit=1, variant="primary"),
    )
    context = admin.site.each_context(request) | {"title": f"{name}?", "content": content}
    return TemplateResponse(request, "admin/base_site.html", context)


def link_to(breaker: Breaker | None) -> SafeString | str:
    """Its state, as a link to its page; what never failed has none."""
    if breaker is None:
        return "closed"
    url = reverse("admin:jobs_breaker_change", args=[breaker.pk])
    return format_html('<a href="{}" class="text-link">{}</a>', url, state_of(breaker))


@admin.register(Breaker)
class BreakerAdmin(BreakerActions, ReadOnlyAdmin):
    """All breakers there are: of what has failed at least once. The open ones come first."""

    list_display = (
        "guarded", "state", "failures", "since", "trials", "next_probe", "records_waiting", "short_error",
    )  # fmt: skip
    list_filter = (("opened_at", admin.EmptyFieldListFilter),)
    search_fields = ("title", "key", "last_error")
    fieldsets = (
        (None, {"fields": ("title", "key", "state", "records_waiting", "last_error")}),
        ("Failures", {"fields": ("failures", "last_failure", "since")}),
        ("Trials", {"fields": ("trials", "trial", "next_probe")}),
    )

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who may look at records may look at what holds them."""
        return may_look(request) or bool(request.user.has_perm("jobs.view_breaker"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Breaker]:
        found: QuerySet[Breaker] = super().get_queryset(request)
        return found.order_by(F("opened_at").desc(nulls_last=True), "title", "pk")

    @display(description="state", label=STATE_LABELS)
    def state(self, breaker: Breaker) -> str:
        return state_of(breaker)

    @admin.display(description="open since (UTC)", ordering="opened_at")
    def since(self, breaker: Breaker) -> str:
        return f"{moment(breaker.opened_at)} ({ago(breaker.opened_at)})" if breaker.opened_at else ""

    @admin.display(description="last failure (UTC)", ordering="last_failure_at")
    def last_failure(self, breaker: Breaker) -> str:
        return moment(breaker.last_failure_at)

    @admin.display(description="next look (UTC)", ordering="probe_at")
    def next_probe(self, breaker: Breaker) -> str:
        return moment(breaker.probe_at)

    @admin.display(description="on trial")
    def trial(self, breaker: Breaker) -> SafeString | str:
        if breaker.trial_id is None:
            return ""
        url = reverse("admin:jobs_backlogrecord_change", args=[breaker.trial_id])
        return format_html('<a href="{}" class="text-link">record {}</a>', url, breaker.trial_id)

    @admin.display(description="records waiting")
    def records_waiting(self, breaker: Breaker) -> SafeString | str:
        url = reverse("admin:jobs_backlogrecord_changelist")
        count = breakers.held_by(breaker)
        if not count:
            return "0"
        query = urlencode({"waiting_for__exact": WaitingFor.BREAKER.value, "breaker__id__exact": breaker.pk})
        return format_html('<a href="{}?{}">{}</a>', url, query, f"{count:,}")

    @admin.display(description="breaker", ordering="title")
    def guarded(self, breaker: Breaker) -> SafeString:
        return format_html('<span style="overflow-wrap: anywhere; white-space: normal">{}</span>', breaker)

    @admin.display(description="last error")
    def short_error(self, breaker: Breaker) -> str:
        return breaker.last_error if len(breaker.last_error) <= 80 else f"{breaker.last_error[:79]}…"
