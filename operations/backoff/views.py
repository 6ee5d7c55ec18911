"""The page of pictures under `backoff/`, and the same as a file or as figures: for staff, and read-only. Its address
contains all of its parameters.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from declarations.problems import lines_of
from declarations.surfaces.duration_fields import DurationField, WholeDurationField
from delivery import extras
from jobs import retries
from jobs.models import RetryPolicy
from jobs.retries import Rule
from operations.backoff import LIMITS, SCALES, SIZES
from operations.backoff.study import JOBS, RETRIES, Study, apart, check_size, study
from operations.backoff.waits import HEADERS, describe, describe_giving_up, describe_waits, row, title_of
from operations.limits import LimitOfOneProcess, TooMany

MOST_DOTS = 20_000
"""The most dots on the page; the command draws more."""

PARAMETERS = ("base", "least", "unit", "jitter")
ALGORITHMS = [(name, name) for name in sorted(retries.ALGORITHMS)]


def takers(parameter: str) -> list[str]:
    """The algorithms that have this parameter."""
    return [name for name, _ in ALGORITHMS if parameter in retries.ALGORITHMS[name].defaults]


def ignored(policy: str, algorithm: str) -> list[str]:
    """The fields that have no effect on the chosen rule: a policy has parameters already."""
    if policy:
        return ["algorithm", *PARAMETERS, *LIMITS]
    without = [name for name in PARAMETERS if algorithm not in takers(name)]
    sweeps = algorithm in retries.ALGORITHMS and retries.ALGORITHMS[algorithm].waits_for_sweeps
    return [*without, "max_failures"] if sweeps else without


def _whole(initial: int | None, least: int, most: int | None, text: str) -> forms.IntegerField:
    return forms.IntegerField(
        initial=initial, required=False, min_value=least, max_value=most, help_text=text,
        widget=UnfoldAdminIntegerFieldWidget,
    )  # fmt: skip


def _choice(choices: list[tuple[str, str]], label: str | None = None, initial: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(
        required=False, choices=choices, label=label, initial=initial, widget=UnfoldAdminSelectWidget
    )


def _seconds() -> DurationField:
    return DurationField(required=False, help_text="Seconds. The algorithm's default if empty.")


class PictureForm(forms.Form):
    """GET parameters of the page. A missing parameter has the default; one that the algorithm does not
    take is ignored.
    """

    of_algorithms = ("algorithm", *PARAMETERS, *LIMITS)

    policy = forms.ModelChoiceField(
        RetryPolicy.objects.none(), required=False, label="Retry policy", empty_label="none: an algorithm",
        widget=UnfoldAdminSelectWidget,
    )  # fmt: skip
    algorithm = _choice(ALGORITHMS, initial="fibonacci")
    base, least, unit = _seconds(), _seconds(), _seconds()
    jitter = _choice([("", "default"), *((name, name) for name in retries.JITTERS)])
    max_delay = WholeDurationField(required=False, help_text="Seconds. No limit if empty.")
    max_failures = _whole(None, 1, None, "Never give up if empty.")
    give_up_after = WholeDurationField(required=False, help_text="Seconds since the first failure.")
    compare = _choice([], "Compare with")
    jobs = _whole(JOBS, 1, 1_000, "Jobs that fail together.")
    retries = _whole(RETRIES, 1, 1_000, "Retries of each job at most.")
    seed = _whole(0, 0, 2**31, "Seed of the random numbers: the same seed draws the same picture.")
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
        """Check the fields together: the rules as a whole, and the size of the picture."""
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
        """Add a rule; its errors are shown next to `field`, or next to the field of the parameter that the message
        begins with.
        """
        try:
            retries.validate(rule)
        except ValidationError as error:
            for part, message in lines_of(error):
                named = message.split(" ", 1)[0] if part == "parameters" else part
                self.add_error(field or (named if named in self.fields else None), f"{name}: {message}")
        self.rules.append((name, rule))


DRAWN = LimitOfOneProcess("backoff", 120, 60)
"""The limit for each account; a page counts twice, itself and its picture. Each is up to a second of a processor:
`MOST_DOTS`.
"""

TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def missing() -> str:
    """Advice on what to install for pictures; empty if they can be drawn."""
    return extras.missing("matplotlib", "a picture")


def image(studies: list[Study], asked: str) -> dict[str, Any]:
    """The context of `backoff_picture.html` for these studies; `asked`: the parameters that the page has for them."""
    width, height = SIZES[len(studies)]
    return {
        "lacking": missing(), "src": f"{reverse('backoff-svg')}?{asked}", "width": width, "height": height,
        "alt": f"{title_of(studies)}. {describe(studies)}",
    }  # fmt: skip


def page(request: HttpRequest, asked: PictureForm) -> HttpResponse:
    """The page: 200, or 400 when a parameter is wrong, with the error next to its field.

    It answers htmx with the pictures alone, or with the errors in their place, always as 200: htmx swaps no other.
    """
    context = {"asked": asked} | (_shown(request, asked) if asked.is_valid() else {})
    if "HX-Request" in request.headers:
        return render(request, "operations/backoff_pictures.html", context | {"live": True})
    context |= admin.site.each_context(request) | {"title": "Backoff", "takers": {p: takers(p) for p in PARAMETERS}}
    return render(request, "operations/backoff.html", context, status=200 if asked.is_valid() else 400)


def picture(request: HttpRequest, asked: PictureForm, form: str) -> HttpResponse:
    """The picture as a file, `form` being svg or png; `?theme=dark` is the dark one. 501: with advice on what to
    install.
    """
    if lacking := missing():
        return _plain(lacking, 501)
    from operations.backoff import charts

    theme, scale = request.GET.get("theme", ""), asked.cleaned_data["scale"]
    disposition = {"Content-Disposition": f'attachment; filename="backoff.{form}"'}
    drawn = charts.draw(_studies(asked), form, scale=scale, theme=theme)
    return HttpResponse(drawn, content_type=TYPES[form], headers=disposition)


def figures(request: HttpRequest, asked: PictureForm) -> HttpResponse:
    """The output of `manage.py policies backoff --json`."""
    each = {study.name: study.as_json(instants=True) for study in _studies(asked)}
    return JsonResponse(each if len(each) > 1 else next(iter(each.values())))


def _studies(asked: PictureForm) -> list[Study]:
    sizes = {name: asked.cleaned_data[name] for name in ("jobs", "retries", "seed")}
    return [study(name, rule, **sizes) for name, rule in asked.rules]


def _shown(request: HttpRequest, asked: PictureForm) -> dict[str, Any]:
    """The context of the page for a valid form."""
    studies = _studies(asked)
    given = urlencode([(key, value) for key, value in request.GET.items() if value and key in asked.fields])
    return {
        "image": image(studies, given),
        "shown": [
            {
                "name": each.name,
                "algorithm": retries.ALGORITHMS[each.rule.algorithm],
                "waits": describe_waits(each.rule),
                "gives_up": describe_giving_up(each.rule),
                "rule": each.described_rule,
            }
            for each in studies
        ],
        "table": {"headers": HEADERS, "rows": [row(each) for each in studies]},
        "files": [(name, f"{reverse(f'backoff-{name}')}?{given}") for name in ("svg", "png", "json")],
    }


def _plain(text: str, status: int, **headers: str) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, headers=headers, content_type="text/plain; charset=utf-8")


def _for_staff(view: Callable[..., HttpResponse], **fixed: str) -> Callable[..., Any]:
    """Allow staff only, a limited number of times a minute; wrong parameters are answered with a 400, except on the
    page.
    """

    def limited(request: HttpRequest) -> HttpResponse:
        try:
            DRAWN.spend(str(request.user.pk))
        except TooMany as error:
            return _plain(f"{error}", 429, **{"Retry-After": str(error.seconds)})
        policies = request.user.has_perm("jobs.view_retrypolicy") or request.user.has_perm("jobs.change_retrypolicy")
        asked = PictureForm(request.GET, policies_shown=policies)
        if view is not page and not asked.is_valid():
            return _plain(
                "\n".join(f"{name}: {' '.join(map(str, texts))}" for name, texts in asked.errors.items()), 400
            )
        return view(request, asked, **fixed)

    return admin.site.admin_view(require_safe(limited))


urlpatterns = [
    path("", _for_staff(page), name="backoff"),
    path("picture.svg", _for_staff(picture, form="svg"), name="backoff-svg"),
    path("picture.png", _for_staff(picture, form="png"), name="backoff-png"),
    path("figures.json", _for_staff(figures), name="backoff-json"),
]
