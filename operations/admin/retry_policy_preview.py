"""The picture of a retry policy, as its page shows it while it is edited."""

from urllib.parse import urlencode

from django import forms
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS, DECIDING, Rule
from operations.backoff.study import study
from operations.backoff.views import image
from operations.backoff.waits import describe_giving_up, describe_waits


def preview_of_form(form: forms.ModelForm) -> SafeString:  # type: ignore[type-arg]
    """The picture of what `form` says, saved or not; or what is wrong with the fields that decide it."""
    if wrong := [f"{name.replace('_', ' ')}: {text}" for name in DECIDING for text in form.errors.get(name, [])]:
        return render_to_string("operations/retry_policy_preview.html", {"wrong": wrong})
    return preview_of(form.instance)


def preview_of(policy: RetryPolicy) -> SafeString:
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
    limits = {name: getattr(rule, name) for name in ("max_delay", "max_failures", "give_up_after")}
    whole = {name: int(value) for name, value in limits.items() if value is not None}
    return urlencode({"algorithm": rule.algorithm, **rule.parameters, **whole})
