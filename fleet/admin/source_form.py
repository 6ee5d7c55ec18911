"""The form of a source: the fields that its kind needs and no more, with an input for each of its options.

Options are one JSON object in the declaration and in the table; here each is a separate field, named `option_…`, made
from the table that also checks them (`engines/kinds.py`). The kind of a new source is chosen first, so that all of this
works without JavaScript.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from declarations.surfaces.admin.declared_admin import DeclaredPages
from engines.kinds import RULES, KindOption
from engines.not_kept import not_kept
from fleet.admin import remote_form
from fleet.admin.agents import AGENT_FIELDS
from fleet.admin.remote_form import OPTION, SECRET, TYPE, in_lines, in_pairs, made
from fleet.admin.secret_inputs import HELP, SecretField, StoresSecrets
from fleet.source_edits import Sources
from operations.limits import LimitOfOneProcess, TooMany
from sources.availability import host_keys
from sources.declarations import validation
from sources.models import Source
from sources.models.source import SourceKind

FETCH = "_fetch_host_key"
"""The button of the form that fills in the key which the host shows now. Saving it is left to the user."""
TRIED = LimitOfOneProcess("tried", 20, 60)
"""The limit for each account: each test holds a thread of the web process for some seconds."""
FETCH_BUTTON = (
    "{}<br>"
    '<button name="{}" value="1" class="border border-base-200 mt-2 px-3 py-2 rounded-default dark:border-base-700">'
    "Fetch host key</button>"
)
CLEARED = (
    f"{HELP}. A change of kind, address, port, host key or options by an account that may not set secrets clears it."
)
WAKING = ("mac_address", "wake_address", "wake_port", "wake_allowed")
OF_A_KIND = ("address", "port", "path", "options", "secret", "secrets", "host_key", *WAKING)
"""Fields that not every kind has."""


class SourceForm(StoresSecrets):
    """The form of a source of `kind`."""

    service = Sources
    stored_as = "source"
    kind = ""
    type_chosen = ""
    """The type of an rclone remote that is new."""
    advanced: Sequence[str] = ()
    """Fields of options that rclone calls advanced."""
    fetched = ""
    """The outcome of fetching the host key, with which nothing is saved."""

    class Meta:
        model = Source
        fields = tuple(
            name for name in Sources.declaration.model_fields if name not in ("options", "secrets", "retired")
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rule = RULES.get(self.kind)
        remote_form.show(self, self.instance.options or {}, self.instance.secrets or {}, self.type_chosen)
        if "secret" in self.fields:
            self.fields["secret"] = SecretField(self.instance.secret, required=False, label="Secret", help_text=CLEARED)
        if rule is None:
            return
        # the declaration checks this, too; here it makes the asterisk
        needed = {"address": bool(rule.address), "path": rule.path_needed, "host_key": rule.has_host_key}
        for name, is_needed in (needed | {"secret": rule.secret_needed}).items():
            if name in self.fields:
                self.fields[name].required = is_needed
        for name, text in (("address", rule.address), ("path", rule.path)):
            if name in self.fields and text:
                self.fields[name].help_text = f"{text[0].upper()}{text[1:]}."
        if "host_key" in self.fields:
            self.fields["host_key"].help_text = format_html(FETCH_BUTTON, self.fields["host_key"].help_text, FETCH)

    def _post_clean(self) -> None:
        super()._post_clean()
        if self.fetched:
            self.errors["host_key"] = self.error_class([self.fetched])

    def sent(self) -> dict[str, Any]:
        """The declared values: its options as one, and the usual value of any field that its kind does not have."""
        found = super().sent()
        typed = {name: value for name, value in self.cleaned_data.items() if name.startswith((OPTION, SECRET))}
        if self.kind in RULES and {name for name in self.fields if name.startswith((OPTION, SECRET))} == typed.keys():
            found["options"], found["secrets"] = remote_form.sent(typed, self.instance.options or {})
        if self.initial.get("kind") not in (None, self.kind):
            fields = Sources.declaration.model_fields
            gone = [name for name in OF_A_KIND if name not in self.fields and name not in found]
            found |= {name: fields[name].get_default(call_default_factory=True, validated_data={}) for name in gone}
        return found

    def place_of(self, field: str, problems: list[str]) -> str | None:
        """The field at which to show a problem: one with an option names it first."""
        if field in ("options", "secrets"):
            named = re.sub(f"^({OPTION}|{SECRET})", "", problems[0].partition(" ")[0])
            field = next((each for each in (f"{OPTION}{named}", f"{SECRET}{named}") if each in self.fields), "")
        return super().place_of(field, problems)


@cache
def form_of(kind: str, remote: str = "", has: tuple[str, ...] = ()) -> type[SourceForm]:
    """The form of a kind, with a field for each of its options. `remote`: the type of an rclone remote, and the
    settings that it `has`.
    """
    rule = RULES.get(kind)
    options = {f"{OPTION}{option.name}": _field_of(option) for option in (rule.options if rule else ())}
    if rule and rule.is_any_remote:
        options = remote_form.fields_of(remote, has)
    advanced = remote_form.advanced_of(remote, has) if rule and rule.is_any_remote else ()
    return made(SourceForm, **options, kind=kind, type_chosen=remote, advanced=advanced)


def _field_of(option: KindOption) -> forms.Field:
    words: dict[str, Any] = {
        "required": option.needed, "label": option.name.replace("_", " ").capitalize().replace("Tls", "TLS"),
        "help_text": f"{option.means}.",
    }  # fmt: skip
    if option.choices:
        choices = [("", "as usual"), *((each, each) for each in option.choices)]
        return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget, **words)
    return forms.CharField(max_length=500, widget=UnfoldAdminTextInputWidget, **words)


def tabs_of(kind: str, options: Iterable[str], advanced: Sequence[str] = ()) -> tuple[Any, ...]:
    """The fieldsets of a kind whose form has these fields for its options: its name above, and the rest in tabs;
    options that rclone calls advanced in a separate one.
    """
    top = (None, {"fields": ("name", "kind")})
    rule = RULES.get(kind)
    if rule is None:
        return (top,)
    reached = ["address"] if rule.address else []
    reached += ["port"] if rule.has_port else []
    reached += [*in_lines([TYPE, "path"], options)] if rule.is_any_remote else ["path", *options]
    reached += ["secret"] if rule.address else []
    reached += ["host_key"] if rule.has_host_key else []
    connection = ("Connection", {"classes": ["tab"], "fields": tuple(reached)})
    more = (
        "Advanced" if advanced else "More",
        {"classes": ["tab"], "fields": (*in_pairs(advanced), "not_kept", "log")},
    )
    if not rule.is_a_machine:
        return top, connection, more
    agent = ("Agent", {"classes": ["tab"], "fields": AGENT_FIELDS})
    if not rule.address:  # a folder of the worker's own host
        return top, connection, agent, more
    waking = ("Wake-on-LAN", {"classes": ["tab"], "fields": (*WAKING, "shown_last_woken_at")})
    return top, connection, waking, agent, more


class SettingsByKind(DeclaredPages):
    """The part of the admin of sources that chooses the form: by the kind that a source has, or is given."""

    form = SourceForm
    change_form_before_template = "fleet/enter_saves.html"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        form = _form_of(request, obj)
        names = [name for name in form.base_fields if name.startswith((OPTION, SECRET))]
        usual = [name for name in names if name not in form.advanced]
        return tabs_of(_kind(request, obj), usual, form.advanced)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = _form_of(request, obj)
        if fetched := getattr(request, "fetched", ""):
            form = made(form, fetched=fetched)
        return super().get_form(request, obj, change, **({"form": form} | kwargs))

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        may_edit = self.has_change_permission(request) if object_id else self.has_add_permission(request)
        if request.method == "POST" and FETCH in request.POST and may_edit:
            typed = request.POST.copy()
            typed["host_key"], request.fetched = _fetch(request, typed)  # type: ignore[attr-defined]
            request.POST = typed  # type: ignore[assignment]
        return super().changeform_view(request, object_id, form_url, extra_context)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        kind = _kind(request, None)
        if kind == SourceKind.RCLONE and request.method != "POST" and not _type(request, None):
            return self._choose_remote(request)
        if request.method == "POST" or kind or not self.has_add_permission(request):
            added: HttpResponse = super().add_view(request, form_url, extra_context)
            return added
        context = admin.site.each_context(request) | {
            "title": "Add source: choose its kind", "opts": Source._meta,
            "kinds": [(kind, RULES[kind], "; ".join(not_kept(kind))) for kind in SourceKind.values],
            "query": request.GET.urlencode(),
        }  # fmt: skip
        return TemplateResponse(request, "fleet/choose_kind.html", context)

    def _choose_remote(self, request: HttpRequest) -> HttpResponse:
        types = remote_form.type_field("choose").widget.render("type", "", {"id": "type"})
        context = {"title": "Add source: which storage is it?", "opts": Source._meta, "types": types}
        carried = {"carried": list(request.GET.items())}
        return TemplateResponse(
            request, "fleet/choose_remote.html", admin.site.each_context(request) | context | carried
        )


def _fetch(request: HttpRequest, typed: Any) -> tuple[str, str]:
    """The host key to fill in, and advice about it."""
    address, port, before = typed.get("address", "").strip(), typed.get("port", ""), typed.get("host_key", "")
    try:
        TRIED.spend(str(request.user.pk))
        validation.check_address(RULES[SourceKind.SFTP], address)
        shown = host_keys.fetch_now(address, int(port) if port.isdecimal() else None)
    except (TooMany, ValueError, OverflowError, OSError) as error:
        return before, f"Nothing was fetched and nothing saved: {error}."
    same = " It is the one that was pinned before." if shown.host_key in before else ""
    return shown.host_key, (
        f"NOT SAVED YET. {address} shows the key {shown.fingerprint}.{same} Compare that with what `ssh-keygen "
        "-lf /etc/ssh/ssh_host_ed25519_key.pub` prints on the host itself, then save: an attacker in between "
        "would show another key."
    )


def _form_of(request: HttpRequest, source: Source | None) -> type[SourceForm]:
    kind = _kind(request, source)
    if not (kind and RULES[kind].is_any_remote):
        return form_of(kind)
    has = {**source.options, **source.secrets} if source else {}
    return form_of(kind, _type(request, source), tuple(sorted(has.keys() - {"type"})))


def _type(request: HttpRequest, source: Source | None) -> str:
    """The type of an rclone remote."""
    own = str(source.options.get("type", "")) if source else ""
    return request.POST.get(TYPE) or request.GET.get("type") or own


def _kind(request: HttpRequest, source: Source | None) -> str:
    kind = request.POST.get("kind") or request.GET.get("kind") or (source.kind if source else "")
    return kind if kind in RULES else ""
