"""The agent of a source, on the source's page: its last report, and its enrolment code and tokens.

A code is shown once, in the answer to the request that made it: never in a message, which would be stored, nor in a
list or a log.
"""

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from unfold.decorators import action
from unfold.enums import ActionVariant

from declarations.surfaces.admin.base import ago, column, moment
from declarations.surfaces.admin.confirmations import question
from declarations.surfaces.admin.row_history import ModelAdmin
from external.durations import span
from external.formatting import several
from fleet.admin.protection import of_a_source
from jobs.clock import database_clock
from sources.agents import tokens
from sources.models import Source

YES_OR_NO = {True: "yes", False: "no"}
NOT_REPORTED = "not reported"

AGENT_FIELDS = (
    "shown_checked_in_at", "hostname", "shown_addresses", "shown_on_battery", "shown_metered", "shown_clock_skew",
    "shown_tokens",
)  # fmt: skip

NEW_CODE = (
    "New enrolment code",
    "An agent exchanges the code for a token, once, within an hour. It is shown on the next page and nowhere else. "
    "Tokens that the source has stay valid until the new one is first used.",
)
REVOKE = (
    "Revoke its tokens",
    "All agents of the source are refused from now on, and an open enrolment code is void. They need a new "
    "code to check in again. Backups continue: its policies still ask the source.",
)


def _clock(skew: float) -> str:
    return f"{span(abs(skew))} {'ahead' if skew >= 0 else 'behind'}"


class Agents(ModelAdmin):
    """The part of the admin of sources about agents: what the agent of a source reported at its last check-in; enrol
    and revoke, from the source's page: first a question, then the verb. Both need `change_source`.
    """

    actions_detail: Any = ("enrol", "revoke_tokens")

    shown_checked_in_at = column(
        "checked_in_at", "checked in (UTC)", lambda at: f"{moment(at)}, {ago(at)}", empty="never"
    )
    shown_addresses = column("addresses", "addresses", lambda found: ", ".join(found) or NOT_REPORTED)
    shown_on_battery = column("on_battery", "on battery", YES_OR_NO.get, empty=NOT_REPORTED)
    shown_metered = column("metered", "metered connection", YES_OR_NO.get, empty=NOT_REPORTED)
    shown_clock_skew = column("clock_skew", "its clock", _clock, empty=NOT_REPORTED)

    @admin.display(description="tokens")
    def shown_tokens(self, source: Any) -> str:
        """The tokens as text, kept on the row: the theme asks six times for a value that it shows once."""
        if not hasattr(source, "tokens_as_text"):
            source.tokens_as_text = _tokens_as_text(source)
        return str(source.tokens_as_text)

    @action(description=NEW_CODE[0], url_path="enrol", permissions=["change"], icon="key")
    @of_a_source
    def enrol(self, request: HttpRequest, source: Source) -> HttpResponse:
        if request.method != "POST":
            return _question(request, source, *NEW_CODE)
        now = database_clock()
        code = tokens.make_code(source, now=now)
        self.log_change(request, source, "Made an enrolment code.")
        context = admin.site.each_context(request) | {
            "title": f"{source}: Enrolment code",
            "opts": source._meta,
            "source": source,
            "code": code,
            "until": moment(tokens.expires_at(tokens.VALID_FOR_SECONDS, now)),
            "command": tokens.enrol_command(request.build_absolute_uri("/"), code),
        }
        return TemplateResponse(request, "fleet/enrolment_code.html", context)  # the admin's pages are never cached

    @action(
        description=REVOKE[0], url_path="revoke", permissions=["change"], icon="key_off", variant=ActionVariant.DANGER
    )
    @of_a_source
    def revoke_tokens(self, request: HttpRequest, source: Source) -> HttpResponse:
        if request.method != "POST":
            return _question(request, source, *REVOKE, danger=True)
        ended = tokens.revoke(source)
        self.log_change(request, source, "Revoked its tokens.")
        text = f"{source}: {several(ended, 'token')} revoked, and any open enrolment code."
        self.message_user(request, text, messages.SUCCESS)
        return redirect("admin:sources_source_change", source.pk)


def _question(request: HttpRequest, source: Source, name: str, means: str, *, danger: bool = False) -> HttpResponse:
    back = reverse("admin:sources_source_change", args=[source.pk])
    asks, title = f"{name}: {source}?", f"{source}: {name}?"
    return question(request, name, means, asks=asks, yes=name, back=back, danger=danger, opts=source._meta, title=title)


def _tokens_as_text(source: Source) -> str:
    valid = list(source.tokens.filter(revoked_at=None).values_list("used_at", flat=True))
    used = max((instant for instant in valid if instant), default=None)
    codes = source.enrolment_codes.filter(used_at=None, expires_at__gt=timezone.now()).count()
    text = f"{len(valid)} valid, {f'last used {ago(used)}' if used else 'never used'}" if valid else "none"
    return f"{text}; {several(codes, 'enrolment code')} not used yet" if codes else text
