"""Inputs for secrets: a reference to one, or the secret itself, which is sealed when the form is saved and never shown
again.

The secret is stored under the name of its purpose, such as `repository-offsite-pass`. One of that name that nothing
else refers to is replaced; else the new one gets a number. If the form is not saved in the end, the view rolls back the
secrets that it stored (`DeclaredPages.changeform_view`).
"""

from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.text import slugify
from unfold.widgets import INPUT_CLASSES, UnfoldAdminTextInputWidget

from declarations.surfaces.admin.declared_admin import DeclaredForm
from sealing.lookup import FORMS
from sealing.references import LONGEST_SECRET, PREFIX
from sealing.stored_secrets import StoredSecrets, users_of
from sources.declarations.reach import SET_SECRET

LONGEST_PREFIX = 60
"""Characters of the name of a row in the name of its secret."""
MAY_NOT = "your account may not set where passwords are found; ask an administrator"
HELP = f"Where it is found: {FORMS}; or type the secret itself in the next field: it is sealed, and never shown again"


@dataclass(frozen=True)
class TypedSecret:
    """A secret that was typed."""

    value: str = field(repr=False)


class SecretWidget(forms.MultiWidget):
    """A reference, and next to it a password: empty unless its text is still to be saved."""

    template_name = "fleet/secret.html"

    def __init__(self) -> None:
        typed = {"class": " ".join(INPUT_CLASSES), "autocomplete": "new-password", "placeholder": "or type it here"}
        reference = UnfoldAdminTextInputWidget(attrs={"placeholder": "stored:NAME", "autocomplete": "off"})
        super().__init__({"": reference, "new": forms.PasswordInput(attrs=typed, render_value=True)})

    def decompress(self, value: Any) -> list[Any]:
        return [value or "", ""]

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        context["widget"]["subwidgets"][1]["attrs"]["aria-label"] = "The secret itself"
        return context

    def id_for_label(self, id_: str) -> str:
        return f"{id_}_0"


class SecretField(forms.Field):
    """A reference to a secret, or a NewSecret. `stored`: the reference that the form was made of."""

    def __init__(self, stored: str = "", **kwargs: Any) -> None:
        super().__init__(widget=SecretWidget(), initial=stored, **kwargs)
        self.stored = stored

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(data) and (data[0] != (initial or "") or bool(data[1]))

    def clean(self, value: Any) -> str | TypedSecret:
        """Raises: ValidationError, which quotes no secret."""
        reference, typed = value or ("", "")
        reference, typed = (reference or "").strip(), typed or ""
        if typed and reference not in ("", self.stored):
            raise ValidationError("is given twice: leave one of the two inputs empty")
        if len(typed) > LONGEST_SECRET:
            raise ValidationError(f"is longer than {LONGEST_SECRET:,} characters")
        if self.required and not (reference or typed):
            raise ValidationError(self.error_messages["required"], code="required")
        return TypedSecret(typed) if typed else reference


class StoresSecrets(DeclaredForm):
    """A form with such fields: a secret that was typed is stored, and its reference sent in its place.

    The name of a stored secret begins with `stored_as`, such as `repository`.
    """

    stored_as = ""

    def clean(self) -> None:
        super().clean()
        for name, value in list(self.cleaned_data.items()):
            if isinstance(value, TypedSecret):
                try:
                    self.cleaned_data[name] = self._stored(name, value)
                except ValidationError as error:
                    self.add_error(name, [text for texts in error.message_dict.values() for text in texts])

    def _stored(self, field: str, new: TypedSecret) -> str:
        """The reference to a secret that is stored now. Raises: ValidationError by field, which quotes no secret."""
        if self.account is not None and not self.account.has_perm(SET_SECRET):
            raise ValidationError({field: [MAY_NOT]})
        service, shown = StoredSecrets(self.account), self.fields[field]
        before = shown.stored if isinstance(shown, SecretField) else ""
        prefix = slugify(self.cleaned_data.get("name", ""))[:LONGEST_PREFIX].strip("-_") or "new"
        name = f"{self.stored_as}-{prefix}-{field.rpartition('secret_')[2]}"
        if before == f"{PREFIX}{name}" and sum(map(len, users_of([name])[name].values())) <= 1:
            row = service.existing([name]).get(name) or service.new()
        else:
            row, name = service.new(), self._free(service, name)
        service.edit(row, {"name": name, "value": new.value})
        return f"{PREFIX}{name}"

    @staticmethod
    def _free(service: StoredSecrets, name: str) -> str:
        number, found = 1, name
        while service.existing([found]):
            number += 1
            found = f"{name}-{number}"
        return found
