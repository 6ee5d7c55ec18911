"""The admin asks before it does something: the page with the question, and the way to it from the page of one row."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.dataclasses import UnfoldAction
from unfold.decorators import action

from declarations.surfaces.web.permissions import may_operate

KEPT_FIELDS = ("action", "select_across", "group", "do")
"""Fields of the request that asks, sent again with the answer: the rows that it is about."""

Verb = TypeVar("Verb")


def question(
    request: HttpRequest,
    name: str,
    means: str,
    lines: Iterable[object] = (),
    *,
    asks: str = "",
    yes: str = "",
    back: str = "",
    danger: bool = False,
    buttons: Iterable[SafeString] = (),
    fields: SafeString | str = "",
    **page: Any,
) -> TemplateResponse:
    """The page that asks whether to do `name`, explains that by `means`, and lists its objects in `lines`.

    The answer yes is a POST to the same address, with the fields that chose the rows (see `is_confirmed`). `asks` is
    the question itself, `yes` the words of its button, `back` where no leads: to the list or the row that was left,
    unless given; `buttons`: those of several answers, instead of one. `fields`: inputs that are sent with the
    answer. `page` is added to the page's context; its `title` is `name?`, unless given.
    """
    kept = [(ACTION_CHECKBOX_NAME, pk) for pk in request.POST.getlist(ACTION_CHECKBOX_NAME)]
    kept += [(field, request.POST[field]) for field in KEPT_FIELDS if field in request.POST]
    back = back or (request.get_full_path() if request.method == "POST" else "../change/")
    yes = yes or f"Yes, {name[0].lower()}{name[1:]}"
    context = {
        "title": f"{name}?",
        "asks": asks or f"{name}?",
        "means": means,
        "lines": lines,
        "kept": kept,
        "fields": fields,
        "buttons": [
            button("No, take me back", href=back),
            *(buttons or [button(yes, submit=1, variant="danger" if danger else "primary")]),
        ],
    }
    return TemplateResponse(request, "declarations/question.html", admin.site.each_context(request) | context | page)


def is_confirmed(request: HttpRequest) -> bool:
    """True if a request confirms a question."""
    return request.method == "POST" and request.POST.get("confirmed") == "yes"


def button(words: str, **attributes: Any) -> SafeString:
    """A button in the admin's style: `href`, or `submit=1`."""
    return render_to_string("unfold/components/button.html", {"children": words, "variant": "default", **attributes})


def posting(request: HttpRequest, content: object, **fields: str) -> SafeString:
    """A small form that sends `fields` to the page that it is on; `content` holds its button."""
    hidden = format_html_join("", '<input type="hidden" name="{}" value="{}">', fields.items())
    return format_html(
        '<form method="post" class="flex gap-2"><input type="hidden" name="csrfmiddlewaretoken" value="{}">{}{}</form>',
        get_token(request), hidden, content,
    )  # fmt: skip


def shown_once(request: HttpRequest, title: str, text: str, secret: str, back: str) -> HttpResponse:
    """The page with a secret, and a button that leads to `back`. As all pages of the admin it is kept by no cache."""
    page: Any = format_html(
        '<div class="flex flex-col gap-4"><p>{}</p><p><code style="overflow-wrap: anywhere">{}</code></p>'
        '<div class="flex gap-3">{}</div></div>',
        text,
        secret,
        button("I have it", href=back),
    )
    context = admin.site.each_context(request) | {"title": title, "content": page}
    return TemplateResponse(request, "admin/base_site.html", context)


def asked(
    name: str, words: str, means: str, verb: Callable[..., Any] | None, icon: str, permission: str = "operate",
    **button: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The two ways to a verb of an `AsksFirst`: the action `name` of its list, and the button `<name>_this`, without
    `_now`, on a row's page. `button`: arguments of unfold, such as a `variant`.
    """
    short = name.removesuffix("_now")

    @admin.action(description=words, permissions=[permission])
    def of_list(self: Any, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        found: HttpResponse | None = self.ask_or_do(request, rows, words, means, verb)
        return found

    def of_page(self: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        found: HttpResponse = self.ask_or_do_for_one(request, object_id, words, means, verb)
        return found

    of_page.__name__ = f"{short}_this"
    return of_list, action(description=words, url_path=short, permissions=[permission], icon=icon, **button)(of_page)


class AsksFirst(Generic[Verb]):
    """A mixin for a model admin whose verbs act on rows of its list and on the row of a page, each after a question."""

    called: str
    """The word for one row in a message."""

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        """The buttons of a row's page: those of the verbs that would have an effect on it."""
        offered: list[UnfoldAction] = super().get_actions_detail(request, object_id)  # type: ignore[misc]
        row = self.get_object(request, str(object_id))  # type: ignore[attr-defined]
        idle = self.idle_verbs(row) if row else set()
        return [each for each in offered if each.method.__name__ not in idle]

    def idle_verbs(self, row: Any) -> set[str]:
        """Names of those in `actions_detail` that would do nothing to this row as it is now."""
        return set()

    def has_operate_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The permission for verbs that put records on the backlog, move them or take them off: that to operate
        records.
        """
        return may_operate(request)

    def ask_or_do(
        self, request: HttpRequest, rows: QuerySet[Any], name: str, means: str, verb: Verb
    ) -> HttpResponse | None:
        """The question, or None once the answer was yes and it is done."""
        raise NotImplementedError

    def ask_or_do_for_one(
        self, request: HttpRequest, object_id: str, name: str, means: str, verb: Verb
    ) -> HttpResponse:
        """The question for the row of a page, or once it is done that page; for a row that is gone, the list."""
        model: Any = self.model  # type: ignore[attr-defined]
        address = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        ids = [int(object_id)] if object_id.isdecimal() and len(object_id) < 19 else []
        rows = model.objects.filter(pk__in=ids)
        if not rows:
            self.message_user(request, f"There is no {self.called} {object_id}.", messages.WARNING)  # type: ignore[attr-defined]
            return redirect(f"{address}_changelist")
        done = redirect(f"{address}_change", object_id)
        return self.ask_or_do(request, rows, name, means, verb) or done
