"""Forms and pages of what is declared: texts and checks are those of the declaration, edits those of its service."""

from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from pydantic import BaseModel
from unfold.admin import ModelAdmin

from declarations.service import InUse, Service
from declarations.shapes import shapes_of
from operations.admin.base import PER_PAGE
from operations.admin.deleting import ToldObstacles
from operations.duration_fields import DurationField, WholeDurationField


def duration_fields(declaration: type[BaseModel]) -> dict[str, type[forms.Field]]:
    """The form fields of its durations."""
    shapes = {name: shape for name, shape in shapes_of(declaration).items() if shape.is_duration}
    return {name: WholeDurationField if shape.type == "integer" else DurationField for name, shape in shapes.items()}


class DeclaredForm(forms.ModelForm):  # type: ignore[type-arg]
    """A form of rows that `service` edits. `account`: whose form it is. `changed`: what differs; None: it is new."""

    service: ClassVar[type[Service[Any]]]
    account: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.edits = self.service(self.account)
        self.changed: set[str] | None = set()
        shapes = shapes_of(self.edits.declaration)
        for name, field in self.fields.items():
            # what has changed is compared with what is stored, not against what the page showed a while ago
            field.show_hidden_initial = False
            if name in shapes and shapes[name].description:
                description = shapes[name].description.replace("None: ", "Empty: ")
                field.help_text = f"{description}. {field.help_text}".strip()

    def sent(self) -> dict[str, Any]:
        """What was typed, as it is declared: references by name, and an empty field as what is usual."""
        fields, shapes, found = self.edits.declaration.model_fields, shapes_of(self.edits.declaration), {}
        for name in fields.keys() & self.cleaned_data.keys():
            value = self.cleaned_data[name]
            if value is None and not shapes[name].nullable:
                value = fields[name].get_default(call_default_factory=True, validated_data={})
            found[name] = value.name if isinstance(value, Model) else value  # type: ignore[attr-defined]
        return found

    def _post_clean(self) -> None:
        sent = self.sent()
        try:
            self.changed = self.edits.fill(self.instance, sent)
        except ValidationError as error:
            for name in sent.keys() - {each.name for each in self.instance._meta.many_to_many}:
                # a preview shows what was typed
                setattr(self.edits.holder(self.instance, name), name, self.cleaned_data.get(name, sent[name]))
            for field, problems in error.message_dict.items():
                place = self.place_of(field.partition(".")[0], problems)
                if place not in self.errors:
                    self.add_error(place, problems)

    def place_of(self, field: str, problems: list[str]) -> str | None:
        """The field of the form beside which problems with a declared one are shown; None: above all of them, since
        what the form does not show is not this account's to correct."""
        return field if field in self.fields else None


class DeclaredPages(ModelAdmin):
    """Rows that are edited by the service of their form."""

    form: type[DeclaredForm]
    list_per_page = PER_PAGE

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        return type(made.__name__, (made,), {"account": request.user})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """The view is one transaction."""
        if change:
            form.edits.lock(obj.pk)
        if form.changed or not change:
            for warning in form.edits.save(obj, form.changed):
                self.message_user(request, f"{obj}: {warning}.", messages.WARNING)


class DeclaredAdmin(DeclaredPages, ToldObstacles):
    """The same, and deleted by it."""

    in_use = (InUse, IntegrityError)

    def obstacles_to_deleting(self, rows: list[Any]) -> list[str]:
        return [each for row in rows for each in self.form.service().obstacles(row)]

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_queryset(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any] | list[Any]) -> None:
        self.form.service(request.user).remove(queryset)
