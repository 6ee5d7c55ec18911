"""The form of an endpoint. Its Authorization is typed in, and never shown again."""

from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminPasswordWidget, UnfoldAdminTextareaWidget, UnfoldBooleanWidget

from delivery.endpoint_checks import (
    LONGEST_AUTHORIZATION,
    asks_for_authorization_again,
    problem_of_authorization,
    problems_of,
)
from delivery.endpoints import set_authorization
from delivery.models import Endpoint, EndpointKind
from operations.admin.duration_fields import DurationField
from operations.admin.retry_policy_form import ParametersField


class EndpointForm(forms.ModelForm):  # type: ignore[type-arg]
    """An endpoint with its Authorization: typed in to set it, left empty to keep it."""

    authorization = forms.CharField(
        required=False,
        strip=True,
        max_length=LONGEST_AUTHORIZATION,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="The value of the header, as Bearer …, sent with each callback. Empty: it stays as it is.",
    )
    remove_authorization = forms.BooleanField(
        required=False, widget=UnfoldBooleanWidget, help_text="Send none any more."
    )

    class Meta:
        model = Endpoint
        fields = (
            "name", "kind", "url", "headers", "connect_timeout", "timeout", "follow_redirects", "region",
            "message_group",
        )  # fmt: skip
        field_classes = {"headers": ParametersField, "connect_timeout": DurationField, "timeout": DurationField}
        widgets = {"headers": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.old_url = self.instance.url

    def clean_headers(self) -> Any:
        """What an empty field becomes."""
        headers = self.cleaned_data.get("headers")
        return {} if headers is None else headers

    def clean_authorization(self) -> str:
        """Raises: ValidationError, which does not quote it."""
        text: str = self.cleaned_data["authorization"]
        if problem := problem_of_authorization(text):
            raise forms.ValidationError(problem)
        return text

    def _post_clean(self) -> None:
        """Beside the model's own checks: what its fields mean together."""
        super()._post_clean()  # type: ignore[misc]
        if not {"kind", "url"} <= self.cleaned_data.keys() | self._fixed():
            return
        for field, problem in problems_of(self.instance).items():
            # what the form does not show is not this person's to correct
            self.add_error(field if field in self.fields else None, problem)
        self._check_authorization()

    def _fixed(self) -> set[str]:
        """Fields that this form leaves as they are."""
        return {"kind"} if "kind" not in self.fields else set()

    def _check_authorization(self) -> None:
        given, removed = self.cleaned_data.get("authorization", ""), self.cleaned_data.get("remove_authorization")
        if given and removed:
            self.add_error("authorization", "is given, and is to be removed: leave one of them out")
        elif given and self.instance.kind != EndpointKind.HTTP_CALLBACK:
            self.add_error("authorization", "is not for a queue: boto3 finds its credentials where the worker runs")
        elif given or removed:
            set_authorization(self.instance, given)
        elif problem := asks_for_authorization_again(self.instance, self.old_url):
            self.add_error("authorization" if "authorization" in self.fields else None, problem)
