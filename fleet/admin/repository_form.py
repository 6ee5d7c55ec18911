"""The form of a repository: a directory of the workers' hosts, or a remote with an input for each of its settings.

Two buttons save nothing and keep what was typed: *Use this type* shows the inputs of another type of remote, and *Test*
tries the place now, which is bounded in time and, for each account, in number.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django import forms
from django.contrib import messages
from django.forms.utils import ErrorDict
from django.http import HttpRequest
from django.utils.html import format_html

from backups.upkeep import repository_trials
from declarations.surfaces.admin.declared_admin import DeclaredPages
from fleet.admin import remote_form
from fleet.admin.remote_form import OPTION, SECRET, TYPE, in_lines, in_pairs, made
from fleet.admin.secret_inputs import StoresSecrets
from fleet.admin.source_form import TRIED
from fleet.repository_edits import Repositories
from operations.limits import TooMany
from sources.models import Repository
from storage.places.remotes import REST_SERVER
from storage.points.store import StorageFailed

CHOOSE, TEST = "_use_type", "_test"
SHOWN = ("name", "format", "remote", "location", "secrets", "encrypted", "key", "tested", "breaker")
"""The fields of a user who may only view."""
BUTTON = (
    "{}<br>"
    '<button name="{}" value="1" class="border border-base-200 mt-2 px-3 py-2 rounded-default dark:border-base-700">'
    "{}</button>"
)
WORKS = "Not saved yet. Writing, reading and deleting work there{}."
WORKS_NOT = "Not saved: {}."
WRONG = "Not saved: correct the errors below, and test again."


class RepositoryForm(StoresSecrets):
    """`asks`: the button that was used, if not to save. `advanced`: fields of options that rclone calls advanced."""

    service = Repositories
    stored_as = "repository"
    type_chosen = ""
    advanced: Sequence[str] = ()
    asks = ""
    tested = ""
    """The outcome of a test, in a sentence."""

    force = forms.BooleanField(
        required=False,
        help_text="Also where other files are, or where its points are not: its sources are doubtful from then on.",
    )

    class Meta:
        model = Repository
        fields = ("name", "format", "location", "encrypted", "key")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        remote_form.show(self, self.instance.remote or {}, self.instance.secrets or {}, self.type_chosen)
        for name, button, words in ((TYPE, CHOOSE, "Use this type"), ("location", TEST, "Test")):
            if name in self.fields:
                self.fields[name].help_text = format_html(BUTTON, self.fields[name].help_text, button, words)

    def full_clean(self) -> None:
        if self.asks == CHOOSE:  # fields that are still empty are not wrong yet
            self._errors, self.cleaned_data = ErrorDict(), {}
        else:
            super().full_clean()

    def is_valid(self) -> bool:
        """True if it is right, and to be saved."""
        return super().is_valid() and not self.asks

    def sent(self) -> dict[str, Any]:
        """The declared values, with remote, secrets and `force`."""
        typed = {name: value for name, value in self.cleaned_data.items() if name.startswith((OPTION, SECRET))}
        remote, secrets = remote_form.sent(typed, self.instance.remote or {})
        force = self.cleaned_data.get("force", False)
        return super().sent() | {"remote": remote, "secrets": secrets, "force": force}

    def _post_clean(self) -> None:
        if any(name.startswith((OPTION, SECRET)) for name in self.errors):
            return  # a part of a remote is another remote
        super()._post_clean()
        if self.asks == TEST and not self.errors:
            self.tested = self._test()

    def _test(self) -> str:
        """The outcome of trying the place, in a sentence. Raises nothing for errors of a place."""
        try:
            found = repository_trials.probe(self.instance)
        except (StorageFailed, ValueError) as error:
            return WORKS_NOT.format(error)
        if problem := found.get("problem"):
            return WORKS_NOT.format(problem)
        return WORKS.format("".join(f"; {notice}" for notice in found.get("notices", ())))

    def place_of(self, field: str, problems: list[str]) -> str | None:
        """The field at which to show a problem: one with a setting names it first; one with the whole remote is shown
        at its type.
        """
        if field in ("remote", "secrets"):
            named = problems[0].partition(" ")[0].rstrip(":,")
            places = (f"{OPTION}{named}", f"{SECRET}{named}", TYPE)
            field = next(each for each in places if each in self.fields or each == TYPE)
        return super().place_of(field, problems)


@lru_cache(maxsize=100)
def form_of(kind: str, stored: tuple[str, ...] = ()) -> type[RepositoryForm]:
    """The form of a repository in a remote of the type `kind`, with these settings stored; a directory if the type is
    empty.
    """
    usual, advanced = remote_form.inputs_of(kind, stored)
    rest = [(REST_SERVER, "A REST server of restic's (rest)")]
    types = remote_form.type_field("A directory of the workers' hosts", rest)
    types.help_text = "The kind of place: a directory, or a type of remote by rclone's name."
    return made(RepositoryForm, **{TYPE: types}, **usual, **advanced, type_chosen=kind, advanced=[*advanced])


class SettingsByType(DeclaredPages):
    """The part of the admin of repositories that chooses the form: by the type that a repository has, or is given."""

    form = RepositoryForm
    saves_nothing = (CHOOSE, TEST)
    change_form_before_template = "fleet/enter_saves.html"

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        asks = next((each for each in (CHOOSE, TEST) if each in request.POST), "")
        form = made(_form_of(request, obj), asks=asks)
        return super().get_form(request, obj, change, **({"form": form} | kwargs))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj and not self.has_change_permission(request, obj):
            return [(None, {"fields": SHOWN})]
        form = _form_of(request, obj)
        settings = [name for name in form.base_fields if name.startswith((OPTION, SECRET))]
        usual = in_lines([TYPE], [name for name in settings if name not in form.advanced])
        fields = ["name", *usual, "location", "format", ("encrypted", "force"), "key"]
        found: list[Any] = [(None, {"fields": [*fields, *(["tested", "breaker"] if obj else [])]})]
        if form.advanced:
            folded = {"classes": ["collapse"], "fields": in_pairs(form.advanced)}
            found.append(("Advanced settings of the remote", folded))
        return found

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        if TEST in request.POST:
            try:
                TRIED.spend(str(request.user.pk))
            except TooMany as error:
                self.message_user(request, WORKS_NOT.format(error), messages.WARNING)
                typed = request.POST.copy()
                typed[CHOOSE] = "1"
                request.POST = typed  # type: ignore[assignment]
        return super().changeform_view(request, object_id, form_url, extra_context)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        form = context["adminform"].form
        if getattr(form, "asks", "") == TEST:
            text = form.tested or WRONG
            works = form.tested and not form.tested.startswith(WORKS_NOT.partition(":")[0] + ":")
            self.message_user(request, text, messages.SUCCESS if works else messages.ERROR)
        return super().render_change_form(request, context, *args, **kwargs)


def _form_of(request: HttpRequest, repository: Repository | None) -> type[RepositoryForm]:
    remote = repository.remote if repository else {}
    own = str(remote.get("type", ""))
    kind = request.POST.get(TYPE, "") if request.method == "POST" else request.GET.get("type") or own
    stored = {*remote, *repository.secrets} if repository and kind == own else set()
    return form_of(kind, tuple(sorted(stored - {"type"})))
