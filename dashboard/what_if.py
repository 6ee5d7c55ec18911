"""The page `what-if/`: the effects of other units, another window or more sources on this fleet, with a chart of the
units at work by hour of the day. Its parameters are in its address."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from dashboard.matrix import of_sources
from dashboard.pages import page
from jobs.clock import database_clock
from jobs.conf import PROGRAM
from operations.limits import TooMany
from simulation import gains
from simulation.changes import MOST_ADDED, Changes, ImpossibleChange, ranges
from simulation.chart import chart_of
from simulation.on_own_fleet import ASKED, OwnFleetComparison, what_if
from simulation.own_history import LONGEST_DAYS
from simulation.what_if import as_text
from sources.models import Policy

USUAL_DAYS = 28
SHOWN = 20


def _whole(least: int, most: int, text: str, label: str | None = None) -> forms.IntegerField:
    return forms.IntegerField(
        required=False, min_value=least, max_value=most, help_text=text, label=label,
        widget=UnfoldAdminIntegerFieldWidget,
    )  # fmt: skip


class WhatIfForm(forms.Form):
    """The change to try. A field that is empty changes nothing."""

    days = _whole(1, LONGEST_DAYS, f"How many of the fleet's last days are simulated ({USUAL_DAYS}).")
    units = _whole(1, 10_000, "Execution units.")
    policy = forms.ModelChoiceField(
        Policy.objects.none(), required=False, empty_label="none", widget=UnfoldAdminSelectWidget,
        help_text="The policy whose window or period changes.",
    )  # fmt: skip
    window = forms.CharField(
        required=False, max_length=500, widget=UnfoldAdminTextInputWidget,
        help_text="Such as mon-fri 22:00-06:00; sat 00:00-00:00, or always.",
    )  # fmt: skip
    cron = forms.CharField(
        required=False, max_length=100, widget=UnfoldAdminTextInputWidget, help_text="When a period begins."
    )
    add = _whole(1, MOST_ADDED, "The number of added sources …", "More")
    like = forms.CharField(
        required=False, max_length=100, widget=UnfoldAdminTextInputWidget, help_text="… like the source with this name."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policies = Policy.objects.select_related("schedule").order_by("schedule__name")
        self.fields["policy"].queryset = policies  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        if (given.get("window") or given.get("cron")) and not given.get("policy"):
            self.add_error("policy", "Name the policy.")
        if bool(given.get("add")) != bool(given.get("like")):
            self.add_error("add" if given.get("like") else "like", "Give both the number and the name of a source.")
        try:
            self.changes = _changes(given)
            self.changes.check()
        except ImpossibleChange as error:
            self.add_error(error.field, str(error))
        return given


def _changes(given: dict[str, Any]) -> Changes:
    """The change of a form. Raises: ImpossibleChange."""
    values: dict[str, Any] = {"windows": ranges(given["window"])} if given.get("window") else {}
    values |= {"period": given["cron"]} if given.get("cron") else {}
    policies = ((str(given["policy"]), values),) if given.get("policy") and values else ()
    added = ((given["add"], given["like"]),) if given.get("add") and given.get("like") else ()
    return Changes(given.get("units"), policies, added)


@of_sources
def what_if_page(request: HttpRequest) -> HttpResponse:
    """Nothing is simulated until it is requested."""
    form = WhatIfForm(request.GET)
    shown: dict[str, Any] = {}
    if form.is_valid() and form.changes != Changes():
        shown = _answer(request, form)
    shown |= {"off": gains.off_as_text(), "program": PROGRAM}
    return page(request, "dashboard/what_if.html", "What if", asked=form, **shown)


def _answer(request: HttpRequest, form: WhatIfForm) -> dict[str, Any]:
    try:
        ASKED.spend(str(request.user.pk))
        answer = what_if(database_clock(), form.cleaned_data["days"] or USUAL_DAYS, form.changes)
    except (ValueError, TooMany) as error:
        return {"because": f"Not computed, because {error}."}
    return shown_of(answer)


def shown_of(answer: OwnFleetComparison) -> dict[str, Any]:
    """The difference for a template: sentences, the chart, and who misses more or fewer periods."""
    found = answer.found
    return {
        "found": found, "lines": as_text(found), "lacks": answer.lacks, "chart": chart_of(found),
        "worse": found.worse[:SHOWN], "more_worse": max(0, len(found.worse) - SHOWN),
        "better": found.better[:SHOWN], "more_better": max(0, len(found.better) - SHOWN),
    }  # fmt: skip
