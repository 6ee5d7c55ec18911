"""The agent of a source, on the source's page: what it reported last, and its enrolment code and tokens.

A code is shown once, in the answer to the request that made it: never in a message, which would be stored, nor in a
list or a log.
"""

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.decorators import action
from unfold.enums import ActionVariant

from jobs.clock import database_clock
from jobs.durations import span
from jobs.formatting import several
from operations.admin.asking import question
from operations.admin.base import ago, moment
from sources.agents import tokens
from sources.models import Source

KNOWN = {True: "yes", False: "no", None: "not reported"}

AGENT_FIELDS = (
    "shown_checked_in_at", "hostname", "shown_addresses", "shown_on_battery", "shown_metered", "shown_clock_skew",
    "shown_snoozed_until", "shown_tokens",
)  # fmt: skip

NEW_CODE = (
    "New enrolment code",
    "An agent exchanges the code for a token, once, within an hour. It is shown on the next page and nowhere else. "
    "Tokens that the source has stay valid until the new one is first used.",
)
REVOKE = (
    "Revoke its tokens",
    "Every agent of the source is refused from now on, and an open enrolment code is void. A new code is needed for it "
    "to check in again. Backups go on: the source is asked as its policies say.",
)


class AgentFields:
    """What the agent of a source reported at its last check-in."""

    @admin.display(description="checked in (UTC)")
    def shown_checked_in_at(self, source: Source) -> str:
        return f"{moment(source.checked_in_at)}, {ago(source.checked_in_at)}" if source.checked_in_at else "never"

    @admin.display(description="addresses")
    def shown_addresses(self, source: Source) -> str:
        return ", ".join(source.addresses) or "not reported"

    @admin.display(description="on battery")
    def shown_on_battery(self, source: Source) -> str:
        return KNOWN[source.on_battery]

    @admin.display(description="metered connection")
    def shown_metered(self, source: Source) -> str:
        return KNOWN[source.metered]

    @admin.display(description="its clock")
    def shown_clock_skew(self, source: Source) -> str:
        if source.clock_skew is None:
            return "not reported"
        return f"{span(abs(source.clock_skew))} {'ahead' if source.clock_skew >= 0 else 'behind'}"

    @admin.display(description="snoozed until (UTC)")
    def shown_snoozed_until(self, source: Source) -> str:
        snoozed = source.snoozed_until and source.snoozed_until > timezone.now()
        return moment(source.snoozed_until) if snoozed else "not snoozed"

    @admin.display(description="tokens")
    def shown_tokens(self, source: Source) -> str:
        return _tokens(source)


class AgentActions:
    """Enrol and revoke, from the page of one source: first a question, then the verb. Both need `change_source`."""

    actions_detail: tuple[str, ...] = ("enrol", "revoke_tokens")

    @action(description=NEW_CODE[0], url_path="enrol", permissions=["change"], icon="key")
    def enrol(self, request: HttpRequest, object_id: str) -> HttpResponse:
        source = self._source(request, object_id)
        if source is None:
            return redirect("admin:sources_source_changelist")
        if request.method != "POST":
            return _question(request, source, *NEW_CODE)
        now = database_clock()
        code = tokens.make_code(source, now=now)
        self.log_change(request, source, "Made an enrolment code.")  # type: ignore[attr-defined]
        context = admin.site.each_context(request) | {
            "title": f"{source}: Enrolment code",
            "opts": source._meta,
            "source": source,
            "code": code,
            "until": moment(tokens.expires_at(tokens.VALID_FOR_SECONDS, now)),
            "command": tokens.enrol_command(request.build_absolute_uri("/"), code),
        }
        return TemplateResponse(request, "sources/enrolment_code.html", context)  # the admin's pages are never cached

    @action(
        description=REVOKE[0], url_path="revoke", permissions=["change"], icon="key_off", variant=ActionVariant.DANGER
    )
    def revoke_tokens(self, request: HttpRequest, object_id: str) -> HttpResponse:
        source = self._source(request, object_id)
        if source is None:
            return redirect("admin:sources_source_changelist")
        if request.method != "POST":
            return _question(request, source, *REVOKE, danger=True)
        ended = tokens.revoke(source)
        self.log_change(request, source, "Revoked its tokens.")  # type: ignore[attr-defined]
        text = f"{source}: {several(ended, 'token')} revoked, and any open enrolment code."
        self.message_user(request, text, messages.SUCCESS)  # type: ignore[attr-defined]
        return redirect("admin:sources_source_change", source.pk)

    def _source(self, request: HttpRequest, object_id: str) -> Source | None:
        """The source, or None when it is gone. Raises: PermissionDenied."""
        source: Source | None = self.get_object(request, object_id)  # type: ignore[attr-defined]
        if source is None:
            self.message_user(request, f"There is no source {object_id}.", messages.WARNING)  # type: ignore[attr-defined]
        elif not self.has_change_permission(request, source):  # type: ignore[attr-defined]
            raise PermissionDenied
        return source


def _question(request: HttpRequest, source: Source, name: str, means: str, *, danger: bool = False) -> HttpResponse:
    back = reverse("admin:sources_source_change", args=[source.pk])
    asks, title = f"{name}: {source}?", f"{source}: {name}?"
    return question(request, name, means, asks=asks, yes=name, back=back, danger=danger, opts=source._meta, title=title)


def _tokens(source: Source) -> str:
    """The theme asks six times for what it shows once."""
    known: str | None = getattr(source, "tokens_in_words", None)
    if known is None:
        known = source.tokens_in_words = _tokens_in_words(source)  # type: ignore[attr-defined]
    return known


def _tokens_in_words(source: Source) -> str:
    valid = list(source.tokens.filter(revoked_at=None).values_list("used_at", flat=True))
    used = max((instant for instant in valid if instant), default=None)
    codes = source.enrolment_codes.filter(used_at=None, expires_at__gt=timezone.now()).count()
    text = f"{len(valid)} valid, {f'last used {ago(used)}' if used else 'never used'}" if valid else "none"
    return f"{text}; {several(codes, 'enrolment code')} not used yet" if codes else text
