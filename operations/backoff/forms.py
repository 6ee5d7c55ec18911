"""What the page of pictures is asked for, in the address of the page."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from jobs import retries
from jobs.models import RetryPolicy
from operations.backoff.axes import SCALES
from operations.backoff.series import check_size
from operations.backoff.subjects import JOBS, RETRIES, Subject, apart

MOST_DOTS = 20_000
"""On the page; the command draws more."""

DEFAULT = "fibonacci"
NUMBERS = ("base", "least", "unit")
"""Parameters that are numbers of seconds."""

LIMITS = ("max_delay", "max_failures", "give_up_after")
PARAMETERS = (*NUMBERS, "jitter")
MOST_POLICIES = 200
"""That are offered; one that a link asks for is shown beside them."""

LONGEST_KEY = 19
"""Digits of the greatest id."""


def takers(parameter: str) -> list[str]:
    """The algorithms that have this parameter."""
    return sorted(name for name, algorithm in retries.ALGORITHMS.items() if parameter in algorithm.defaults)


def ignored(policy: str, algorithm: str) -> list[str]:
    """The fields that do not matter to what is chosen: a policy has parameters of its own."""
    if policy:
        return ["algorithm", *PARAMETERS, *LIMITS]
    without = [name for name in PARAMETERS if algorithm not in takers(name)]
    counts = algorithm in retries.ALGORITHMS and not retries.ALGORITHMS[algorithm].waits_for_sweeps
    return without if counts else [*without, "max_failures"]


def _whole(initial: int | None, most: int, text: str, least: int = 1) -> forms.IntegerField:
    return forms.IntegerField(
        initial=initial,
        required=False,
        min_value=least,
        max_value=most,
        help_text=text,
        widget=UnfoldAdminIntegerFieldWidget,
    )


def _seconds() -> forms.FloatField:
    return forms.FloatField(
        required=False,
        help_text="Seconds. Empty: the algorithm's default.",
        validators=[MinValueValidator(retries.SHORTEST), MaxValueValidator(retries.LONGEST)],
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "decimal"}),
    )


class PictureForm(forms.Form):
    """GET parameters of the page. What is left out has the default; what an algorithm does not take is ignored."""

    of_algorithms = ("algorithm", *PARAMETERS, *LIMITS)

    policy = forms.ChoiceField(required=False, label="Retry policy", widget=UnfoldAdminSelectWidget)
    algorithm = forms.ChoiceField(
        required=False,
        choices=[(name, name) for name in sorted(retries.ALGORITHMS)],
        initial=DEFAULT,
        widget=UnfoldAdminSelectWidget,
    )
    base = _seconds()
    least = _seconds()
    unit = _seconds()
    jitter = forms.ChoiceField(
        required=False, choices=[("", "default"), *((name, name) for name in retries.JITTERS)],
        widget=UnfoldAdminSelectWidget,
    )  # fmt: skip
    max_delay = _whole(None, retries.LARGEST, "Seconds. Empty: no wait is too long.")
    max_failures = _whole(None, retries.LARGEST, "Empty: never give up.")
    give_up_after = _whole(None, retries.LARGEST, "Seconds since the first failure.")
    compare = forms.ChoiceField(required=False, label="Compare with", widget=UnfoldAdminSelectWidget)
    jobs = _whole(JOBS, 1_000, "That fail together.")
    retries = _whole(RETRIES, 1_000, "Of each job at most.")
    seed = _whole(0, 2**31, "Of chance: the same one, the same picture.", least=0)
    scale = forms.ChoiceField(
        required=False, label="Time axis", choices=[(name, name) for name in SCALES], widget=UnfoldAdminSelectWidget
    )

    def __init__(self, data: Any, *, policies_shown: bool) -> None:
        """`policies_shown`: whether who asks may see retry policies."""
        given = data.copy()
        for name, field in self.base_fields.items():
            if not given.get(name) and field.initial is not None:
                given[name] = field.initial
        self.ignored = ignored(given.get("policy", ""), given.get("algorithm", ""))
        for name in self.ignored:
            given[name] = ""
        super().__init__(given)
        rows = RetryPolicy.objects.order_by("name") if policies_shown else RetryPolicy.objects.none()
        self.policies = {f"{policy.pk}": policy for policy in rows[:MOST_POLICIES]}
        asked = {given.get("policy", ""), given.get("compare", "").removeprefix("policy:")} - self.policies.keys()
        keys = [int(key) for key in asked if key.isascii() and key.isdecimal() and len(key) < LONGEST_KEY]
        self.policies |= {f"{policy.pk}": policy for policy in rows.filter(pk__in=keys)}
        names = [(key, policy.name) for key, policy in self.policies.items()]
        self.fields["policy"].choices = [("", "none: an algorithm"), *names]  # type: ignore[attr-defined]
        algorithms = [(name, name) for name in sorted(retries.ALGORITHMS)]
        groups = [("Algorithms", algorithms), ("Retry policies", [(f"policy:{key}", name) for key, name in names])]
        self.fields["compare"].choices = [("", "nothing"), *groups]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Check what goes together: the rule as a whole, and the size of the picture."""
        given = self.cleaned_data
        if self.errors:
            return given
        try:
            check_size(given["jobs"], given["retries"], MOST_DOTS)
        except ValueError as error:
            self.add_error("retries", f"{error}")
        try:
            self.subjects = self._subjects()
        except ValidationError as error:
            self._tell(error)
        return given

    def _subjects(self) -> list[Subject]:
        given = self.cleaned_data
        subjects = [self._of_policy(given["policy"]) if given["policy"] else self._of_algorithm()]
        other = given["compare"]
        if other.startswith("policy:"):
            subjects.append(self._of_policy(other.removeprefix("policy:")))
        elif other:
            subjects.append(Subject(other, retries.Rule(other)))
        return apart(subjects)

    def _of_policy(self, key: str) -> Subject:
        """Raises: ValidationError for one that was stored past its form."""
        policy = self.policies[key]
        try:
            retries.validate(policy.as_rule())
        except ValidationError as error:
            raise ValidationError({"policy": f"{policy} is not valid: {' '.join(error.messages)}"}) from error
        return Subject(policy.name, policy.as_rule())

    def _of_algorithm(self) -> Subject:
        given, name = self.cleaned_data, self.cleaned_data["algorithm"]
        taken = retries.ALGORITHMS[name].defaults
        parameters = {key: given[key] for key in taken if given[key] not in (None, "")}
        limits = {key: given[key] for key in LIMITS if given[key] is not None}
        rule = retries.Rule(name, parameters, **limits)
        retries.validate(rule)
        return Subject(name, rule)

    def _tell(self, error: ValidationError) -> None:
        """Beside the field of the parameter, where the message names it."""
        for field, messages in error.message_dict.items():
            for message in messages:
                named = message.split(" ", 1)[0]
                self.add_error(named if named in self.fields else field if field in self.fields else None, message)
