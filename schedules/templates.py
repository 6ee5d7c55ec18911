"""Payload templates: JSON in whose texts `$name` takes the place of a fact of the event.

A text that is exactly one placeholder becomes that fact itself, so `"$number"` yields a number. Names of objects are
left as they are. A compiled template has all facts filled in except those that differ from event to event: a batch of a
hundred thousand is then written by putting strings together.
"""

import json
from collections.abc import Callable, Mapping
from string import Template
from typing import Any, NamedTuple
from uuid import uuid4

OF_THE_BATCH = ("schedule", "trigger_at", "count", "zone")
OF_THE_EVENT = ("event_id", "number", "run_after")
NAMES = (*OF_THE_BATCH, *OF_THE_EVENT)
"""Names of placeholders. `number` and `count` are numbers, the others texts; instants are 2026-03-02T09:00:00Z."""

LARGEST = 200_000
"""Characters of a template as JSON: a message of SQS holds 256 KiB, and the facts come on top."""

Value = str | int


def check(template: Any) -> None:
    """Check `template`, which is JSON that the database can hold. Raises: ValueError naming the part that does not
    render.
    """
    if (length := len(json.dumps(template))) > LARGEST:
        raise ValueError(f"the payload template has {length:,} characters, more than {LARGEST:,}")
    _walk(template, lambda text, where: _render_text(text, dict.fromkeys(NAMES, ""), where), "")


class CompiledTemplate(NamedTuple):
    """JSON in pieces: `texts` with `gaps` between them, each the name of a fact and whether it is a text by itself."""

    texts: tuple[str, ...]
    gaps: tuple[tuple[str, bool], ...]

    def fill(self, event_id: str, number: int, run_after: str) -> str:
        """The JSON of one event. The facts need no escaping in JSON: digits, letters, `-`, `:` and `.`."""
        inside = {"event_id": event_id, "number": str(number), "run_after": run_after}
        alone = {"event_id": f'"{event_id}"', "number": str(number), "run_after": f'"{run_after}"'}
        pieces = [self.texts[0]]
        for (name, is_whole), text in zip(self.gaps, self.texts[1:], strict=True):
            pieces.append(alone[name] if is_whole else inside[name])
            pieces.append(text)
        return "".join(pieces)


def compiled(template: Any, values: Mapping[str, Value]) -> CompiledTemplate:
    """`template` with the facts of the batch filled in. `values`: of OF_THE_BATCH. Raises: ValueError."""
    mark = uuid4().hex  # in no template
    inside: dict[str, Value] = {name: f"{mark}{name}{mark}" for name in OF_THE_EVENT}
    alone: dict[str, Value] = {name: f"{mark}={name}{mark}" for name in OF_THE_EVENT}

    def text_of(text: str, where: str) -> Value:
        name = _only_placeholder(text)
        return alone[name] if name in alone else _render_text(text, {**values, **inside}, where)

    written = json.dumps(_walk(template, text_of, ""), ensure_ascii=False)
    written = written.replace(f'"{mark}=', f"{mark}=")  # the quotes of a fact that is a text by itself come with it
    for name in OF_THE_EVENT:
        written = written.replace(f'={name}{mark}"', f"={name}{mark}")
    pieces = written.split(mark)
    names = pieces[1::2]
    return CompiledTemplate(tuple(pieces[::2]), tuple((name.removeprefix("="), name.startswith("=")) for name in names))


def _walk(part: Any, text_of: Callable[[str, str], Any], where: str) -> Any:
    if isinstance(part, str):
        return text_of(part, where)
    if isinstance(part, dict):
        return {name: _walk(each, text_of, f"{where}.{name}") for name, each in part.items()}
    if isinstance(part, list | tuple):
        return [_walk(each, text_of, f"{where}[{place}]") for place, each in enumerate(part)]
    return part


def _only_placeholder(text: str) -> str | None:
    """The name, if `text` is one placeholder and nothing else."""
    match = Template.pattern.fullmatch(text)
    return (match["named"] or match["braced"]) if match else None


def _render_text(text: str, values: Mapping[str, Value], where: str) -> Value:
    if (name := _only_placeholder(text)) and name in values:
        return values[name]
    try:
        return Template(text).substitute(values)
    except KeyError as error:
        known = ", ".join(f"${name}" for name in NAMES)
        raise ValueError(f"there is no ${error.args[0]}{_at(where)}; there are {known}, and $$ for a dollar") from None
    except ValueError:
        raise ValueError(f"{text!r:.80}{_at(where)} has a $ that begins no name; write $$ for a dollar") from None


def _at(where: str) -> str:
    return f" at {where.lstrip('.')}" if where else ""
