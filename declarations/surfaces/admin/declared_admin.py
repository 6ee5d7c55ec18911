"""Forms and pages of declared rows: texts and checks are those of the declaration, edits those of its service."""

import hashlib
from contextlib import suppress
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import ValidationError
from django.core.validators import BaseValidator
from django.db import IntegrityError, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from pydantic import BaseModel

from declarations.parts import HasParts, parts_of
from declarations.problems import WORDS, WORDS_OF_TYPE
from declarations.service import InUse, Service
from declarations.shapes import Shape, shapes_of
from declarations.surfaces.admin.base import PER_PAGE
from declarations.surfaces.admin.part_fields import PartsField
from declarations.surfaces.admin.row_history import ModelAdmin
from declarations.surfaces.duration_fields import DurationField, WholeDurationField
from external import durations


def duration_fields(declaration: type[BaseModel]) -> dict[str, type[forms.Field]]:
    """The form fields of its durations."""
    shapes = {name: shape for name, shape in shapes_of(declaration).items() if shape.is_duration}
    return {name: WholeDurationField if shape.type == "integer" else DurationField for name, shape in shapes.items()}


AS_OPENED = "as_opened"
"""The hidden field of a page with the values that were stored when it was opened."""

OPEN_AGAIN = "Nothing was saved. Open the page again to see it, and make your changes there."


class DeclaredForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form of rows that `service` edits. `account`: its user. `changed`: the fields that differ, None if the row is
    new.
    """

    service: ClassVar[type[Service[Any]]]
    account: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.edits = self.service(self.account)
        self.changed: set[str] | None = set()
        shapes, parts = shapes_of(self.edits.declaration), parts_of(self.edits.declaration)
        for name, of in parts.items():
            if name in self.fields:
                label = self.fields[name].label
                self.fields[name] = PartsField(of, self.get_initial_for_field(self.fields[name], name), label=label)
        for name, field in self.fields.items():
            # changes are compared with the stored values, not with those that the page showed a while ago
            field.show_hidden_initial = False
            if name in shapes:
                field.help_text = f"{help_of(shapes[name], parts.get(name), field)} {field.help_text}".strip()
                _in_declared_words(field, shapes[name])

    @property
    def as_opened(self) -> str:
        """The stored values when the page was opened, as a digest of each: for a hidden field. A form with mistakes
        keeps those with which it was opened.
        """
        return str(self.data.get(AS_OPENED) or "") or " ".join(f"{name}={at}" for name, at in self._digests().items())

    def _digests(self) -> dict[str, str]:
        if not self.instance.pk:
            return {}
        stored = {name: self.get_initial_for_field(field, name) for name, field in self.fields.items()}
        return {name: hashlib.sha256(repr(value).encode()).hexdigest()[:12] for name, value in stored.items()}

    def _refuse_to_revert(self, stored: dict[str, str]) -> None:
        """Refuse to overwrite another user's changes since the page was opened. Equal changes are accepted."""
        opened = dict(each.split("=", 1) for each in str(self.data.get(AS_OPENED) or "").split() if "=" in each)
        parts = set(self.changed_data) - self.edits.declaration.model_fields.keys()  # inputs of a part of a value
        mine = parts | (self.changed or set())
        names = [name for name, now in stored.items() if name in mine and opened.get(name, now) != now]
        if names:
            fields = ", ".join(str(self[name].label) for name in names)
            self.add_error(None, f"Changed by another since this page was opened: {fields}. {OPEN_AGAIN}")

    def sent(self) -> dict[str, Any]:
        """The values that were typed, as they are declared: references by name, an empty field as its usual value."""
        fields, shapes, found = self.edits.declaration.model_fields, shapes_of(self.edits.declaration), {}
        for name in fields.keys() & self.cleaned_data.keys():
            value = self.cleaned_data[name]
            if value is None and not shapes[name].nullable:
                value = fields[name].get_default(call_default_factory=True, validated_data={})
            found[name] = value.name if isinstance(value, Model) else value  # type: ignore[attr-defined]
        return found

    def _post_clean(self) -> None:
        sent, stored = self.sent(), self._digests()
        try:
            self.changed = self.edits.fill(self.instance, sent)
            self._refuse_to_revert(stored)
        except ValidationError as error:
            for name in sent.keys() - {each.name for each in self.instance._meta.many_to_many}:
                # a preview shows the typed values
                setattr(self.edits.holder(self.instance, name), name, self.cleaned_data.get(name, sent[name]))
            for field, problems in error.message_dict.items():
                place = self.place_of(field.partition(".")[0], problems)
                if place not in self.errors:
                    self.add_error(place, problems)

    def place_of(self, field: str, problems: list[str]) -> str | None:
        """The field of the form next to which problems with a declared field are shown; None for the top of the form,
        since this account cannot correct a field that the form does not show.
        """
        return field if field in self.fields else None


def _in_declared_words(field: forms.Field, shape: Shape) -> None:
    """Word what is wrong with a field as the declaration does for all surfaces; it checks bounds and choices."""
    field.validators = [each for each in field.validators if not isinstance(each, BaseValidator)]
    field.error_messages["required"] = WORDS["missing"]
    if shape.type in WORDS_OF_TYPE and not shape.is_duration:
        field.error_messages["invalid"] = WORDS_OF_TYPE[shape.type]
    if shape.choices and isinstance(field, forms.ChoiceField):
        field.valid_value = lambda value: True  # type: ignore[method-assign]


def help_of(shape: Shape, parts: HasParts | None, field: forms.Field) -> str:
    """The help of a field: its effect, and its default."""
    text = (parts.means if parts else "") or shape.description
    if not text:
        return ""
    if " if empty" in text or shape.default in (None, "") or isinstance(shape.default, bool | list | dict):
        return f"{text}."  # a switch shows its default
    usual = durations.write(shape.default) if shape.is_duration else shape.default
    return f"{text}. Default: {dict(getattr(field, 'choices', ())).get(usual, usual)}."


class DeclaredPages(ModelAdmin):
    """Rows that are edited by the service of their form."""

    form: type[DeclaredForm]
    saves_nothing: ClassVar[tuple[str, ...]] = ()
    """Buttons of the form with which nothing is saved: they may wait for a server, and lock no row."""
    list_per_page = PER_PAGE
    change_form_before_template = "declarations/as_opened.html"

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        return type(made.__name__, (made,), {"account": request.user})

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """Serve the form. The row is locked before it is read, so that the second of two simultaneous saves is compared
        with the first. A form that is not saved undoes everything that it has stored while it was checked.
        """
        if request.method != "POST":
            return super().changeform_view(request, object_id, form_url, extra_context)
        with transaction.atomic():
            if object_id and not any(each in request.POST for each in self.saves_nothing):
                self._lock(request, unquote(object_id))
            answer = super().changeform_view(request, object_id, form_url, extra_context)
            if not getattr(request, "is_saved", False):
                transaction.set_rollback(True)
        return answer

    def _lock(self, request: HttpRequest, row_id: str) -> None:
        with suppress(ValidationError):  # it is the id of no row
            key: Any = self.opts.pk
            self.form.service(request.user).lock(key.to_python(row_id))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The view is one transaction, and has locked the row."""
        request.is_saved = True  # type: ignore[attr-defined]
        if form.changed or not change:
            for warning in form.edits.save(obj, form.changed):
                self.message_user(request, f"{obj}: {warning}.", messages.WARNING)


IN_USE = (InUse, IntegrityError)
"""The errors of deleting rows that have come into use since they were looked at: of the service, of the database."""


class DeclaredAdmin(DeclaredPages):
    """Pages of declared rows that the service also deletes. For rows that others use, they name the obstacle of a
    deletion and ask no question: Django would list each row that uses one, and there may be millions.
    """

    delete_confirmation_template = "declarations/delete_confirmation.html"
    delete_selected_confirmation_template = "declarations/delete_selected_confirmation.html"

    def obstacles_to_deleting(self, rows: list[Any]) -> list[str]:
        return [each for row in rows for each in self.form.service().obstacles(row)]

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Asks for no permission: both callers have done so."""
        rows = list(objs)
        counts = {self.opts.verbose_name_plural: len(rows)}
        return [str(row) for row in rows], counts, set(), self.obstacles_to_deleting(rows)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        try:
            return super().delete_view(request, object_id, extra_context)
        except IN_USE as error:
            return self._refused(request, "It has come into use in the meantime; look again.", error)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if request.method != "POST":
            return super().changelist_view(request, extra_context)
        try:
            with transaction.atomic():  # Django writes into its log before it deletes
                return super().changelist_view(request, extra_context)
        except IN_USE as error:
            return self._refused(request, "One has come into use in the meantime; none was deleted.", error)

    def _refused(self, request: HttpRequest, text: str, error: Exception) -> HttpResponse:
        """A page that names the present uses of the row, if the error has a sentence for users."""
        used = f" {error}" if isinstance(error, InUse) else ""
        self.message_user(request, f"{text}{used}", messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_queryset(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any] | list[Any]) -> None:
        self.form.service(request.user).remove(queryset)
