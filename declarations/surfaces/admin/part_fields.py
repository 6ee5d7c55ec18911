"""The fields of a form whose values have parts (`declarations/parts.py`): an input for each part, and rows that are
added and removed.

Without scripts there is one empty row at the end, and a row without a text is ignored; `part_fields.js` adds and
removes rows where it runs. Cells are sent as `window-0-days`, by row and part.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from unfold.widgets import INPUT_CLASSES, SELECT_CLASSES, TEXTAREA_CLASSES

from declarations.parts import NO, YES, HasParts, Part, Parts, Takes

Filling = tuple[str, str, list[Any]]
"""A button: its words, its title, and the value that it fills in."""

CLASSES = {Takes.LINES: TEXTAREA_CLASSES, Takes.YES_OR_NO: SELECT_CLASSES, Takes.ONE_OF: SELECT_CLASSES}
NEW = "__new__"
"""The number of the row in the page's template of one."""
FEWEST_LINES, MOST_LINES = 1, 8


class Cells(list[dict[str, str]]):
    """Texts that are shown, or were typed, by part: a row each."""


class PartsWidget(forms.Widget):
    """Inputs of a value that has parts. `fillings`: buttons that fill in whole values."""

    template_name = "declarations/parts.html"

    def __init__(self, of: HasParts, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        self.of = of
        self.fillings: Sequence[Filling] = ()

    class Media:
        js = ("declarations/part_fields.js",)

    def id_for_label(self, id_: str) -> str:
        return f"{id_}-0-{self.of.parts[0].name}" if id_ else id_

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Cells | None:
        """The cells in the order of their rows. None if the page did not have this field."""
        place = re.compile(rf"{re.escape(name)}-([0-9]{{1,6}})-(.+)", re.DOTALL)
        rows: dict[int, dict[str, str]] = {}
        for key in data:
            if found := place.fullmatch(key):
                # a browser ends lines of a text area as HTTP does
                rows.setdefault(int(found[1]), {})[found[2]] = str(data[key]).replace("\r\n", "\n")
        return Cells(rows[number] for number in sorted(rows)) if rows else None

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return self.value_from_datadict(data, files, name) is None

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        rows = list(value or [])
        if is_one := isinstance(self.of, Parts):
            rows = rows or self.of.cells({})
        else:
            rows.append({})
        context["widget"] |= {
            "is_one": is_one,
            "title": getattr(self.of, "title", ""),
            "chosen_by": getattr(self.of, "chosen_by", ""),
            "rows": [self._row(name, str(number), row) for number, row in enumerate(rows)],
            "new": None if is_one else self._row(name, NEW, {}),
            "new_number": NEW,
            "lists": [] if is_one else [self._list(name, part) for part in self.of.parts if part.suggested],
            "fillings": [
                (words, title, json.dumps([*self.of.cells(filled)], ensure_ascii=False))
                for words, title, filled in self.fillings
            ],
        }
        return context

    def _row(self, name: str, number: str, row: Mapping[str, str]) -> list[dict[str, Any]]:
        parts = self.of.all_parts(row) if isinstance(self.of, Parts) else self.of.parts
        return [self._cell(name, number, part, row.get(part.name, "")) for part in parts]

    def _cell(self, name: str, number: str, part: Part, text: str) -> dict[str, Any]:
        is_one = isinstance(self.of, Parts)
        place = "" if is_one else f"{getattr(self.of, 'title', '')} {'' if number == NEW else int(number) + 1}".strip()
        return {
            "part": part, "text": text, "name": f"{name}-{number}-{part.name}",
            "id": f"id_{name}-{number}-{part.name}", "said": f"{place}: {part.label}" if place else part.label,
            "list": f"id_{name}-{part.name}-list" if part.suggested else "",
            "takes": part.takes.value, "classes": " ".join(CLASSES.get(part.takes, INPUT_CLASSES)),
            "lines": min(max(text.count("\n") + 2, FEWEST_LINES), MOST_LINES),
            "choices": _choices(part, text), "only_for": " ".join(part.only_for),
        }  # fmt: skip

    @staticmethod
    def _list(name: str, part: Part) -> dict[str, Any]:
        return {"id": f"id_{name}-{part.name}-list", "suggested": part.suggested}


def _choices(part: Part, text: str) -> list[str]:
    """The texts of a part that is chosen, the stored one among them; empty if it is typed."""
    there = {Takes.YES_OR_NO: (YES, NO), Takes.ONE_OF: part.suggested}.get(part.takes, ())
    return list(dict.fromkeys(["", *there, text])) if there else []


class PartsField(forms.Field):
    """A value that has parts. `stored`: the value from which the form was made; unchanged cells stay as they are in
    it."""

    widget: PartsWidget

    def __init__(self, of: HasParts, stored: Any = None, **kwargs: Any) -> None:
        super().__init__(widget=PartsWidget(of), required=False, **kwargs)
        self.of, self.stored = of, stored

    def prepare_value(self, value: Any) -> Cells | None:
        """The cells of a value, or the texts that were typed as they were."""
        return value if isinstance(value, Cells) or value is None else Cells(self.of.cells(value))

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return data is not None and bool(self.to_python(data) != initial)
        except ValidationError:
            return True

    def to_python(self, value: Cells | None) -> Any:
        """The value of cells; None if the page did not have them. Raises: ValidationError."""
        if value is None:
            return None
        try:
            return self.of.value(value, self.stored)
        except ValueError as error:
            raise ValidationError(str(error)) from error
