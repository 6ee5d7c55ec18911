"""Common parts of all pages of the dashboard: for staff only, and in the frame of the admin. Also this version's
documentation as pages: `docs/*.md` and the decisions.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import markdown
from django.conf import settings
from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe


def staff(view: Callable[..., HttpResponse]) -> Callable[..., Any]:
    """A page that staff may look at (GET); others are led to the login."""
    return admin.site.admin_view(require_safe(view))


def page(request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
    """`template`, which extends `dashboard/base.html`, with the menu and the title."""
    return TemplateResponse(request, template, admin.site.each_context(request) | {"title": title} | context)


FIRST = "operations.md"
EXTENSIONS = ("tables", "fenced_code", "toc")


@staff
def document(request: HttpRequest, name: str = FIRST) -> HttpResponse:
    """One document by its file's name, so that its links to others lead to their pages."""
    path = _documents().get(name)
    if path is None:
        raise Http404(f"there is no document {name}")
    text = path.read_text(encoding="utf-8")
    heading, _, body = text.partition("\n")
    # written by us, and shipped with the program: its contents are as trusted as a template
    made = markdown.markdown(body, extensions=EXTENSIONS, output_format="html")
    # blocks that scroll sideways can be reached by the keyboard
    content = mark_safe(made.replace("<pre>", '<pre tabindex="0">').replace("<table>", '<table tabindex="0">'))  # noqa: S308
    return page(request, "dashboard/document.html", heading.lstrip("# "), content=content, documents=_listed(name))


def _documents() -> dict[str, Path]:
    """Name → file. Other files are not shown, whatever the address is."""
    root: Path = settings.DOCS
    return {str(path.relative_to(root)): path for path in sorted(root.rglob("*.md"))}


def _listed(name: str) -> list[dict[str, Any]]:
    """The list next to a document: those at the top, and the decisions while one is open."""
    return [
        {
            "name": each.rpartition("/")[2].removesuffix(".md"),
            "url": reverse("docs-of", args=[each]),
            "is_open": each == name,
        }
        for each in _documents()
        if "/" not in each or "/" in name
    ]
