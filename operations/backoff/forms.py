"""What the page of pictures is asked for, in the address of the page."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from jobs import retries
from jobs.models import RetryPolicy
from jobs.retries import Rule
from operations.backoff import LIMITS, SCALES
from operations.backoff.study import JOBS, RETRIES, apart, check_size
from operations.duration_fields import DurationField, WholeDurationField

MOST_DOTS = 20_000
"""On the page; the command draws more."""

PARAMETERS = ("base", "least", "unit", "jitter")
ALGORITHMS = [(name, name) for name in sorted(retries.ALGORITHMS)]


def takers(parameter: str) -> list[str]:
    """The algorithms that have this parameter."""
    return [name for name, _ in ALGORITHMS if parameter in retries.ALGORITHMS[name].defaults]


def ignored(policy: str, algorithm: str) -> list[str]:
    """The fields that do not matter to what is chosen: a policy has parameters of its own."""
    if policy:
        return ["algorithm", *PARAMETERS, *LIMITS]
    without = [name for name in PARAMETERS if algorithm not in takers(name)]
    sweeps = algorithm in retries.ALGORITHMS and retries.ALGORITHMS[algorithm].waits_for_sweeps
    return [*without, "max_failures"] if sweeps else without


def _whole(initial: int | None, least: int, most: int, text: str) -> forms.IntegerField:
    number = UnfoldAdminIntegerFieldWidget
    return forms.IntegerField(
        initial=initial, required=False, min_value=least, max_value=most, help_text=text, widget=number
    )


def _seconds() -> DurationField:
    limits = [MinValueValidator(retries.SHORTEST), MaxValueValidator(retries.LONGEST)]
    return DurationField(required=False, help_text="Seconds. Empty: the algorithm's default.", validators=limits)


def _whole_seconds(text: str) -> WholeDurationField:
    limits = [MinValueValidator(1), MaxValueValidator(retries.LARGEST)]
    return WholeDurationField(required=False, help_text=text, validators=limits)


def _choice(choices: list[tuple[str, str]], label: str | None = None, initial: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(
        required=False, choices=choices, label=label, initial=initial, widget=UnfoldAdminSelectWidget
    )


class PictureForm(forms.Form):
    """GET parameters of the page. What is left out has the default; what an algorithm does not take is ignored."""

    of_algorithms = ("algorithm", *PARAMETERS, *LIMITS)

    policy = forms.ModelChoiceField(
        RetryPolicy.objects.none(), required=False, label="Retry policy", empty_label="none: an algorithm",
        widget=UnfoldAdminSelectWidget,
    )  # fmt: skip
    algorithm = _choice(ALGORITHMS, initial="fibonacci")
    base, least, unit = _seconds(), _seconds(), _seconds()
    jitter = _choice([("", "default"), *((name, name) for name in retries.JITTERS)])
    max_delay = _whole_seconds("Seconds. Empty: no wait is too long.")
    max_failures = _whole(None, 1, retries.LARGEST, "Empty: never give up.")
    give_up_after = _whole_seconds("Seconds since the first failure.")
    compare = _choice([], "Compare with")
    jobs = _whole(JOBS, 1, 1_000, "That fail together.")
    retries = _whole(RETRIES, 1, 1_000, "Of each job at most.")
    seed = _whole(0, 0, 2**31, "Of chance: the same one, the same picture.")
    scale = _choice([(name, name) for name in SCALES], "Time axis", "auto")

    def __init__(self, data: Any, *, policies_shown: bool) -> None:
        """`policies_shown`: whether the account may see retry policies."""
        given = data.copy()
        for name, field in self.base_fields.items():
            if not given.get(name) and field.initial is not None:
                given[name] = field.initial
        self.ignored = ignored(given.get("policy", ""), given.get("algorithm", ""))
        for name in self.ignored:
            given[name] = ""
        super().__init__(given)
        policies = RetryPolicy.objects.order_by("name") if policies_shown else RetryPolicy.objects.none()
        self.policies = {f"policy:{policy.pk}": policy for policy in policies}
        self.fields["policy"].queryset = policies  # type: ignore[attr-defined]
        names = [(key, policy.name) for key, policy in self.policies.items()]
        groups = [("", "nothing"), ("Algorithms", ALGORITHMS), ("Retry policies", names)]
        self.fields["compare"].choices = groups  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Check what goes together: the rules as a whole, and the size of the picture."""
        given = self.cleaned_data
        if self.errors:
            return given
        try:
            check_size(given["jobs"], given["retries"], MOST_DOTS)
        except ValueError as error:
            self.add_error("retries", f"{error}")
        self.rules: list[tuple[str, Rule]] = []
        if given["policy"]:
            self._add("policy", given["policy"].name, given["policy"].as_rule())
        else:
            taken = retries.ALGORITHMS[given["algorithm"]].defaults
            parameters = {key: given[key] for key in taken if given[key] not in (None, "")}
            limits = {key: given[key] for key in LIMITS if given[key] is not None}
            self._add("", given["algorithm"], Rule(given["algorithm"], parameters, **limits))
        if policy := self.policies.get(given["compare"]):
            self._add("compare", policy.name, policy.as_rule())
        elif given["compare"]:
            self._add("compare", given["compare"], Rule(given["compare"]))
        self.rules = apart(self.rules)
        return given

    def _add(self, field: str, name: str, rule: Rule) -> None:
        """Take a rule; what is wrong with it stands beside `field`, or beside that of the parameter it begins with."""
        try:
            retries.validate(rule)
        except ValidationError as error:
            for message in error.messages:
                named = message.split(" ", 1)[0]
                self.add_error(field or (named if named in self.fields else None), f"{name}: {message}")
        self.rules.append((name, rule))
