"""Requests to a surface, and their results."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from declarations.service import Service
from tests.declarations.surfaces.resources import Values


@dataclass
class Answer:
    """`text`: what it says. `problems`: sentences by field; `refusal`: one about the whole."""

    text: str
    problems: dict[str, str] = field(default_factory=dict)
    refusal: str = ""

    @property
    def is_done(self) -> bool:
        return not self.problems and not self.refusal


class Way(Protocol):
    """A surface for one resource. `who` acts there, and by what, where it knows that."""

    service: type[Service[Any]]
    who: tuple[str, str] | None

    def secret(self, name: str) -> Values: ...  # what is typed in by this name, where that is possible
    def create(self, values: Values) -> Answer: ...
    def change(self, row: Any, values: Values) -> Answer: ...
    def remove(self, row: Any) -> Answer: ...
    def shown(self, row: Any) -> str: ...  # all that it shows of a row
    def verb(self, row: Any, verb: str, **given: str) -> Answer: ...  # pause or resume
