"""Values that have parts, as a declaration describes them. API, commands and fleet files hold such a value as JSON; a
form has a field for each part.

    window: Annotated[list[JsonObject], …, Rows("range", (Part("days"), Part("start"), Part("end")))]

`Rows` is a list of objects, `Parts` an object whose keys are known, `Pairs` an object with any keys. Each turns a value
into cells, which are texts by the name of a part, and cells into a value. A cell whose text was not changed keeps the
stored value, whatever it is; only a changed text is read.

Pure: the declaration checks the value.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel

WHOLE = re.compile(r"-?[0-9]{1,18}")
YES, NO = "yes", "no"

Cell = Mapping[str, str]


class Takes(Enum):
    """The value that the text of a part becomes."""

    TEXT = "text"
    WHOLE = "whole"
    YES_OR_NO = YES
    LINES = "lines"
    """A list of texts, each on its own line."""
    ONE_OF = "one of"
    """One of the texts that are `suggested`."""


@dataclass(frozen=True)
class Part:
    """A part of a value. `means`: its effect, and the default without it. `suggested`: texts to choose from; others are
    accepted as well, unless it takes one of them. `only_for`: the choices of another field that have this part, all if
    there are none (`Parts.chosen_by`)."""

    name: str
    title: str = ""
    example: str = ""
    takes: Takes = Takes.TEXT
    means: str = ""
    suggested: tuple[str, ...] = ()
    only_for: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.title or self.name.replace("_", " ")

    def text(self, value: Any) -> str:
        """The value of this part as a user would type it; JSON for a value that no form has made."""
        if isinstance(value, str):
            return value
        if self.takes is Takes.YES_OR_NO and isinstance(value, bool):
            return YES if value else NO
        if self.takes is Takes.LINES and isinstance(value, list) and all(isinstance(each, str) for each in value):
            return "\n".join(value)
        return json.dumps(value, ensure_ascii=False)

    def value(self, text: str) -> Any:
        """The value that was typed. A text that is not of its sort stays a text, which the declaration refuses."""
        stripped = text.strip()
        if self.takes is Takes.WHOLE and WHOLE.fullmatch(stripped):
            return int(stripped)
        if self.takes is Takes.YES_OR_NO and stripped in (YES, NO):
            return stripped == YES
        if self.takes is Takes.LINES:
            return [line for line in text.splitlines() if line.strip()]
        return stripped


@dataclass(frozen=True)
class Parts:
    """An object whose keys are `parts`. `means`: help for a form, where the description of the field shows JSON.
    `chosen_by`: the field of the same declaration whose value decides which of the parts there are."""

    parts: tuple[Part, ...]
    means: str = ""
    chosen_by: str = ""

    def cells(self, value: Any) -> list[dict[str, str]]:
        """The one row of its cells; keys that the declaration does not know come last."""
        stored = value if isinstance(value, dict) else {}
        return [{part.name: _shown(part, stored) for part in self.all_parts(stored)}]

    def all_parts(self, names: Iterable[str]) -> list[Part]:
        known = {part.name for part in self.parts}
        return [*self.parts, *(Part(name) for name in names if name not in known)]

    def value(self, cells: Sequence[Cell], stored: Any) -> dict[str, Any]:
        """The object of one row of cells. `stored`: the value that the form was made of."""
        row = {name: text for each in cells for name, text in each.items()}
        return _object(self.all_parts(row), row, stored if isinstance(stored, dict) else {})


@dataclass(frozen=True)
class Rows:
    """A list of objects, each a row with `parts`. `title`: of one row. `alone`: the part that is stored as a text by
    itself, and goes with no other."""

    title: str
    parts: tuple[Part, ...]
    means: str = ""
    alone: str = ""

    def cells(self, value: Any) -> list[dict[str, str]]:
        return [self._row(item) for item in (value if isinstance(value, list) else [])]

    def value(self, cells: Sequence[Cell], stored: Any) -> list[Any]:
        """The rows that are not empty. Raises: ValueError for a contradictory one."""
        items = list(stored) if isinstance(stored, list) else []
        rows = [row for row in cells if any(text.strip() for text in row.values())]
        return [self._item(row, number, items) for number, row in enumerate(rows, 1)]

    def _row(self, item: Any) -> dict[str, str]:
        names = {part.name for part in self.parts}
        if isinstance(item, dict) and item.keys() <= names:
            return {part.name: _shown(part, item) for part in self.parts}
        first = self.alone or self.parts[0].name  # JSON, if no form has made it
        return {**dict.fromkeys(names, ""), first: Part(first).text(item)}

    def _item(self, row: Cell, number: int, stored: Sequence[Any]) -> Any:
        at_its_place = stored[number - 1 : number]
        for item in (*at_its_place, *stored):
            if self._row(item) == row:
                return item
        found = _object(self.parts, row, {})
        if self.alone not in found:
            return found
        if len(found) > 1:
            others = " or ".join(part.label for part in self.parts if part.name != self.alone)
            alone = next(part.label for part in self.parts if part.name == self.alone)
            raise ValueError(f"{self.title} {number}: has a {alone}, or {others}, not both: use two rows")
        return found[self.alone]


@dataclass(frozen=True)
class Pairs:
    """An object with any keys: rows of a name and a value."""

    title: str
    means: str = ""
    parts: tuple[Part, ...] = (Part("name"), Part("value"))

    def cells(self, value: Any) -> list[dict[str, str]]:
        stored = value if isinstance(value, dict) else {}
        return [{"name": name, "value": Part("value").text(each)} for name, each in stored.items()]

    def value(self, cells: Sequence[Cell], stored: Any) -> dict[str, Any]:
        """Raises: ValueError for a name that occurs twice, or is missing."""
        before = stored if isinstance(stored, dict) else {}
        found: dict[str, Any] = {}
        for number, row in enumerate((row for row in cells if any(text.strip() for text in row.values())), 1):
            name, text = row.get("name", ""), row.get("value", "")
            name = name if name in before else name.strip()
            if not name:
                raise ValueError(f"{self.title} {number}: its name is missing")
            if name in found:
                raise ValueError(f"{self.title} {number}: {name:.60} occurs twice")
            is_as_before = name in before and Part("value").text(before[name]) == text
            found[name] = before[name] if is_as_before else text.strip()
        return found


HasParts = Parts | Rows | Pairs


def parts_of(declaration: type[BaseModel]) -> dict[str, HasParts]:
    """The fields of a declaration that have parts."""
    return {
        name: each
        for name, field in declaration.model_fields.items()
        for each in field.metadata
        if isinstance(each, HasParts)
    }


def _shown(part: Part, stored: Mapping[str, Any]) -> str:
    return part.text(stored[part.name]) if stored.get(part.name) is not None else ""


def _object(parts: Iterable[Part], row: Cell, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The parts that are not empty; those with an unchanged text have the stored value."""
    found: dict[str, Any] = {}
    for part in parts:
        text = row.get(part.name, "")
        if part.name in stored and text == _shown(part, stored):
            found[part.name] = stored[part.name]
        elif text.strip():
            found[part.name] = part.value(text)
    return found
