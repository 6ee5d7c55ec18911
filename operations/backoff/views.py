"""The page of pictures under `backoff/`, and the same as a file or as figures: for staff, and only to look at."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from delivery import extras
from jobs.retries import ALGORITHMS
from operations.backoff import SIZES
from operations.backoff.forms import PARAMETERS, PictureForm, takers
from operations.backoff.study import Study, study
from operations.backoff.waits import HEADERS, describe, describe_giving_up, describe_waits, row, title_of
from operations.limits import LimitOfOneProcess, TooMany

DRAWN = LimitOfOneProcess("backoff", 120, 60)
"""Per account; a page takes two, itself and its picture. Each is up to a second of a processor: `forms.MOST_DOTS`."""

TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def missing() -> str:
    """What to install, for pictures; empty: they can be drawn."""
    return extras.missing("matplotlib", "a picture")


def image(studies: list[Study], asked: str) -> dict[str, Any]:
    """What `backoff_picture.html` shows of these studies; `asked`: the parameters that the page has for them."""
    width, height = SIZES[len(studies)]
    return {
        "lacking": missing(), "src": f"{reverse('backoff-svg')}?{asked}", "width": width, "height": height,
        "alt": f"{title_of(studies)}. {describe(studies)}",
    }  # fmt: skip


def page(request: HttpRequest, asked: PictureForm) -> HttpResponse:
    """The page: 200, or 400 when a parameter is wrong, with what is wrong beside its field.

    To htmx it answers with the pictures alone, or with what is wrong in their place, always as 200: it swaps no other.
    """
    context = {"asked": asked} | (_shown(request, asked) if asked.is_valid() else {})
    if "HX-Request" in request.headers:
        return render(request, "operations/backoff_pictures.html", context | {"live": True})
    context |= admin.site.each_context(request) | {"title": "Backoff", "takers": {p: takers(p) for p in PARAMETERS}}
    return render(request, "operations/backoff.html", context, status=200 if asked.is_valid() else 400)


def picture(request: HttpRequest, asked: PictureForm, form: str) -> HttpResponse:
    """The picture as a file, `form` being svg or png; `?theme=dark` is the dark one. 501: with what to install."""
    if lacking := missing():
        return _plain(lacking, 501)
    from operations.backoff import charts

    theme, scale = request.GET.get("theme", ""), asked.cleaned_data["scale"]
    disposition = {"Content-Disposition": f'attachment; filename="backoff.{form}"'}
    drawn = charts.draw(_studies(asked), form, scale=scale, theme=theme)
    return HttpResponse(drawn, content_type=TYPES[form], headers=disposition)


def figures(request: HttpRequest, asked: PictureForm) -> HttpResponse:
    """What `manage.py backoff --json` prints."""
    each = {study.name: study.as_json(instants=True) for study in _studies(asked)}
    return JsonResponse(each if len(each) > 1 else next(iter(each.values())))


def _studies(asked: PictureForm) -> list[Study]:
    sizes = {name: asked.cleaned_data[name] for name in ("jobs", "retries", "seed")}
    return [study(name, rule, **sizes) for name, rule in asked.rules]


def _shown(request: HttpRequest, asked: PictureForm) -> dict[str, Any]:
    """What the page shows of a valid form."""
    studies = _studies(asked)
    given = urlencode([(key, value) for key, value in request.GET.items() if value and key in asked.fields])
    return {
        "image": image(studies, given),
        "shown": [
            {
                "name": each.name,
                "algorithm": ALGORITHMS[each.rule.algorithm],
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
    """Staff only, so many times a minute; what is wrong with the parameters ends all but the page with a 400."""

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
