"""Retry policies: a list with their waits, and a page with their picture, live while they are edited."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError

from jobs import retries
from jobs.durations import span
from jobs.models import RetryPolicy
from operations.admin.base import SMALL_TEXT_AREAS
from operations.admin.declared import DeclaredAdmin
from operations.admin.previewing import PreviewedForm
from operations.admin.retry_policy_form import RetryPolicyForm
from operations.admin.retry_policy_preview import preview_of, preview_of_form
from operations.backoff.waits import describe_limits, describe_waits, first_waits

RANGES_IN_THE_LIST = 5
"""A range takes the place of two waits."""


@admin.register(RetryPolicy)
class RetryPolicyAdmin(DeclaredAdmin, PreviewedForm):
    """A retry policy, with its picture."""

    when_empty = "A retry policy says how long what failed waits, and when it is given up."
    form = RetryPolicyForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = ("name", "algorithm", "shown_parameters", "cap", "shown_giving_up", "first_delays")
    list_filter = ("algorithm",)
    search_fields = ("name",)

    def preview_of_form(self, form: Any) -> str:
        return preview_of_form(form)

    def preview_of_page(self, form: Any, saved: RetryPolicy | None) -> str:
        if form.is_bound:
            return preview_of_form(form)
        return preview_of(saved) if saved and _is_valid(saved) else ""

    @admin.display(description="parameters")
    def shown_parameters(self, policy: RetryPolicy) -> str:
        if not isinstance(policy.parameters, dict):
            return f"{policy.parameters!r:.50}"
        algorithm = retries.ALGORITHMS.get(policy.algorithm)
        given = {**algorithm.defaults, **policy.parameters} if algorithm else policy.parameters
        return ", ".join(f"{name} {value}" for name, value in given.items())

    @admin.display(description="no wait above", ordering="max_delay")
    def cap(self, policy: RetryPolicy) -> str:
        return "" if _is_valid(policy) and policy.as_rule().waits_for_sweeps else span(policy.max_delay)

    @admin.display(description="gives up")
    def shown_giving_up(self, policy: RetryPolicy) -> str:
        if not _is_valid(policy):
            return ""
        return describe_limits(policy.as_rule())

    @admin.display(description="first delays")
    def first_delays(self, policy: RetryPolicy) -> str:
        if not _is_valid(policy):
            return "its parameters are wrong"
        rule = policy.as_rule()
        certain = all(least == most for least, most in first_waits(rule))
        return describe_waits(rule) if certain else describe_waits(rule, RANGES_IN_THE_LIST)


def _is_valid(policy: RetryPolicy) -> bool:
    """Whether the pure functions take it: it may have been stored past its form."""
    try:
        retries.validate(policy.as_rule())
    except ValidationError:
        return False
    return True
