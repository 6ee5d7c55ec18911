"""Retry policies: a list with their waits, and a page with their picture, live while they are edited."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from declarations.surfaces.admin.base import SMALL_TEXT_AREAS, column
from declarations.surfaces.admin.declared_admin import DeclaredAdmin, DeclaredForm, duration_fields
from declarations.surfaces.admin.preview_forms import PreviewedForm, problems_of
from external.durations import span
from jobs import retries
from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS, DECIDING, Rule
from operations.backoff import LIMITS
from operations.backoff.study import study
from operations.backoff.views import image
from operations.backoff.waits import describe_giving_up, describe_limits, describe_waits, first_waits
from operations.declarations import RetryPolicies

RANGES_IN_THE_LIST = 5
"""A range takes the place of two waits."""


class RetryPolicyForm(DeclaredForm):
    service = RetryPolicies

    class Meta:
        model = RetryPolicy
        fields = tuple(RetryPolicies.declaration.model_fields)
        field_classes = duration_fields(RetryPolicies.declaration)


def _is_valid(policy: RetryPolicy) -> bool:
    """True if the pure functions accept it: it may have been stored without its form."""
    try:
        retries.validate(policy.as_rule())
    except ValidationError:
        return False
    return True


def _cap(policy: RetryPolicy) -> str:
    has_none = policy.max_delay >= retries.LARGEST or (_is_valid(policy) and policy.as_rule().waits_for_sweeps)
    return "" if has_none else span(policy.max_delay)


def _giving_up(policy: RetryPolicy) -> str:
    return describe_limits(policy.as_rule()) if _is_valid(policy) else ""


def _parameters(policy: RetryPolicy) -> str:
    if not isinstance(policy.parameters, dict):
        return f"{policy.parameters!r:.50}"
    algorithm = ALGORITHMS.get(policy.algorithm)
    given = {**algorithm.defaults, **policy.parameters} if algorithm else policy.parameters
    return ", ".join(f"{name} {value}" for name, value in given.items())


def _first_delays(policy: RetryPolicy) -> str:
    if not _is_valid(policy):
        return "its parameters are wrong"
    rule = policy.as_rule()
    certain = all(least == most for least, most in first_waits(rule))
    return describe_waits(rule) if certain else describe_waits(rule, RANGES_IN_THE_LIST)


@admin.register(RetryPolicy)
class RetryPolicyAdmin(DeclaredAdmin, PreviewedForm):
    """A retry policy, with its picture."""

    when_empty = "A retry policy says how long a record waits after a failure, and when it gives up."
    form = RetryPolicyForm
    formfield_overrides = SMALL_TEXT_AREAS
    list_display = ("name", "algorithm", "shown_parameters", "cap", "shown_giving_up", "first_delays")
    list_filter = ("algorithm",)
    search_fields = ("name",)

    shown_parameters = column(_parameters, "parameters")
    cap = column(_cap, "no wait above", ordered="max_delay")
    shown_giving_up = column(_giving_up, "gives up")
    first_delays = column(_first_delays, "first delays")

    def preview_of_form(self, form: Any) -> str:
        """The picture of the values in `form`, saved or not; or the errors of the fields that decide it."""
        if wrong := problems_of(form, DECIDING):
            return render_to_string("operations/retry_policy_preview.html", {"wrong": wrong})
        return _preview_of(form.instance)

    def preview_of_page(self, form: Any, saved: RetryPolicy | None) -> str:
        if form.is_bound:
            return self.preview_of_form(form)
        return _preview_of(saved) if saved and _is_valid(saved) else ""


def _preview_of(policy: RetryPolicy) -> SafeString:
    """The picture of a valid policy, its first waits, when it gives up, and where to compare it."""
    rule = policy.as_rule()
    found, asked = study(policy.name or rule.algorithm, rule), _address_of(rule)
    context = {
        "algorithm": ALGORITHMS[rule.algorithm],
        "waits": describe_waits(rule),
        "gives_up": describe_giving_up(rule),
        "href": f"{reverse('backoff')}?{asked}",
        "image": image([found], asked),
    }
    return render_to_string("operations/retry_policy_preview.html", context)


def _address_of(rule: Rule) -> str:
    """The parameters of the page of pictures for this very rule, whether it is stored or not."""
    whole = {name: int(value) for name in LIMITS if (value := getattr(rule, name)) is not None}
    return urlencode({"algorithm": rule.algorithm, **rule.parameters, **whole})
