"""Forms that check what their person may let the workers reach (`sources/reach.py`)."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from unfold.admin import ModelAdmin


class ReachForm(forms.ModelForm):  # type: ignore[type-arg]
    """`account` is the person's. `notices` are for the person, once the row is saved."""

    account: Any
    notices: Sequence[str] = ()

    def check_reach(self) -> Sequence[str]:
        """Notices about the row, which is valid. Raises: ValidationError."""
        raise NotImplementedError

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            try:
                self.notices = self.check_reach()
            except ValidationError as error:
                self._update_errors(error)  # type: ignore[attr-defined]


class ReachAdmin(ModelAdmin):
    """Hands its `form`, a ReachForm, the account, and shows its notices."""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        made = super().get_form(request, obj, change, **kwargs)
        return type(made.__name__, (made,), {"account": request.user})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        for notice in form.notices:
            self.message_user(request, notice, messages.WARNING)
