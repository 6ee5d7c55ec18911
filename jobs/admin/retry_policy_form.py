"""The form of a retry policy: buttons fill in the defaults of each algorithm."""

import json
from typing import Any

from django import forms
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminTextareaWidget

from jobs.models import RetryPolicy
from jobs.retries import ALGORITHMS


class ParametersWidget(UnfoldAdminTextareaWidget):
    """A field for JSON with a button for each algorithm, which chooses that and writes its defaults."""

    template_name = "jobs/with_algorithms.html"

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context: dict[str, Any] = super().get_context(name, value, attrs)
        words = 'type="button" title="{}" data-algorithm="{}" data-parameters="{}" x-on:click="choose($el)"'
        context["widget"]["buttons"] = [
            (name, format_html(words, algorithm.formula, name, json.dumps(algorithm.defaults)))
            for name, algorithm in sorted(ALGORITHMS.items())
        ]
        return context


class RetryPolicyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A retry policy; what its form says is checked by the model."""

    class Meta:
        model = RetryPolicy
        fields = ("name", "algorithm", "parameters", "max_delay", "max_failures", "give_up_after")
        widgets = {"parameters": ParametersWidget(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            # what has changed is told against what is stored, not against what the page showed a while ago
            field.show_hidden_initial = False
