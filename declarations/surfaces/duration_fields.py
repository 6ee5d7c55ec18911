"""Fields of forms for seconds that are written and read as `90s`, `15m`, `2h` or `7d`."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import EMPTY_VALUES
from unfold.widgets import UnfoldAdminTextInputWidget

from external import durations


class DurationField(forms.Field):
    """A duration in seconds. The model checks its further rules."""

    def __init__(self, *, widget: Any = None, min_value: Any = None, help_text: str = "", **kwargs: Any) -> None:
        if getattr(widget, "input_type", "") != "text":  # a field for numbers, which holds no `15m`
            widget = UnfoldAdminTextInputWidget()
        super().__init__(widget=widget, help_text=f"{help_text} Such as 90s, 15m, 2h or 7d.", **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """A stored value as users type it; a typed text unchanged."""
        return durations.write(value) if isinstance(value, int | float) else value

    def to_python(self, value: Any) -> float | None:
        """Raises: ValidationError for text that is not a duration."""
        if value in EMPTY_VALUES:
            return None
        try:
            return durations.parse(str(value).strip())
        except ValueError as error:
            raise ValidationError(str(error)) from error


class WholeDurationField(DurationField):
    """A duration in whole seconds."""

    def to_python(self, value: Any) -> float | None:
        """Raises: ValidationError for text that is not a duration in whole seconds."""
        seconds = super().to_python(value)
        if isinstance(seconds, float):
            raise ValidationError("must be whole seconds")
        return seconds
