"""The page of pictures, and the same as a file or as figures. `urls.py` lets only staff see them, and only look."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.safestring import mark_safe

from jobs import retries
from operations.backoff import telling
from operations.backoff.forms import PARAMETERS, PictureForm, takers
from operations.backoff.pictures import inline, missing
from operations.backoff.subjects import Study, study
from operations.backoff.themes import LIGHT, THEMES
from operations.backoff.waits import describe_waits

TYPES = {"svg": "image/svg+xml", "png": "image/png"}


def page(request: HttpRequest) -> HttpResponse:
    """The page: 200, or 400 when a parameter is wrong, with what is wrong beside its field.

    To htmx it answers with the pictures alone, or with what is wrong in their place, always as 200: it swaps no other.
    """
    form = _form(request)
    valid = form.is_valid()
    context = {"asked": form} | (_shown(request, form) if valid else {})
    if "HX-Request" in request.headers:
        return render(request, "operations/backoff_pictures.html", context | {"live": True})
    context |= admin.site.each_context(request) | {"title": "Backoff", "takers": {p: takers(p) for p in PARAMETERS}}
    return render(request, "operations/backoff.html", context, status=200 if valid else 400)


def picture(request: HttpRequest, form: str) -> HttpResponse:
    """The picture as a file, `form` being svg or png; `?theme=dark` is the dark one. 400 with what is wrong; 501 with
    what to install."""
    asked = _form(request)
    if not asked.is_valid():
        return _refused(asked)
    if lacking := missing():
        return HttpResponse(f"{lacking}\n", status=501, content_type="text/plain")
    from operations.backoff import charts

    theme = THEMES.get(request.GET.get("theme", ""), LIGHT)
    drawn = charts.draw(_studies(asked), form, scale=_scale(asked), theme=theme)
    answer = HttpResponse(drawn, content_type=TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="backoff.{form}"'
    return answer


def figures(request: HttpRequest) -> HttpResponse:
    """What `manage.py backoff --json` prints. 400 with what is wrong."""
    asked = _form(request)
    if not asked.is_valid():
        return _refused(asked)
    studies = _studies(asked)
    each = {study.subject.name: telling.facts(study) for study in studies}
    return JsonResponse(each if len(studies) > 1 else telling.facts(studies[0]))


def _form(request: HttpRequest) -> PictureForm:
    shown = request.user.has_perm("jobs.view_retrypolicy") or request.user.has_perm("jobs.change_retrypolicy")
    return PictureForm(request.GET, policies_shown=shown)


def _refused(form: PictureForm) -> HttpResponse:
    lines = (f"{name}: {' '.join(map(str, texts))}" for name, texts in form.errors.items())
    return HttpResponse("\n".join(lines), status=400, content_type="text/plain; charset=utf-8")


def _scale(form: PictureForm) -> str:
    return form.cleaned_data["scale"] or "auto"


def _studies(form: PictureForm) -> list[Study]:
    given = form.cleaned_data
    sizes = {name: given[name] for name in ("jobs", "retries", "seed")}
    return [study(subject, **sizes) for subject in form.subjects]


def _shown(request: HttpRequest, form: PictureForm) -> dict[str, Any]:
    """What the page shows of a valid form."""
    studies = _studies(form)
    drawn = inline(studies, _scale(form))
    asked = urlencode([(key, value) for key, value in request.GET.items() if value and key in form.fields])
    return {
        "shown": [
            {
                "study": each,
                "algorithm": retries.ALGORITHMS[each.subject.rule.algorithm],
                "waits": describe_waits(each.subject.rule),
                "picture": mark_safe(drawn[place]),  # noqa: S308 - drawn by us; names in it are escaped
            }
            for place, each in enumerate(studies)
        ],
        "table": {"headers": telling.HEADERS, "rows": [telling.row(each) for each in studies]},
        "files": [
            (name, f"{reverse(f'backoff-{name}')}?{asked}" if asked else reverse(f"backoff-{name}"))
            for name in ("svg", "png", "json")
        ],
    }
