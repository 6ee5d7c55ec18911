"""Orders to child processes of the scheduler: the one protocol of both sides (`serving.py` is the child's).

A child is started for one order, can be killed at any moment, and inherits nothing but a small environment. It reads
and prints JSON objects, one per line:

    {"do": …, "facts": …, "terms": …}   the order, on its standard input: secrets are in there, and never in its argv
    {}                                  it lives; an order that may take long prints one about once a second
    {"keep": …}                         it waits until that was kept; a byte at a pipe that it inherits answers
    {"answer": …}                       its result; the last line that counts
    {"raised": word, "with": …}         the same for an exception that both sides have a word for: raised here again
    {"unknown": why}                    it knows no such order, or no such fact or term: its code is of another version
    anything else                       passed on, such as progress

An exception without a word ends the child with a traceback, and its giver gets `NoAnswer`, as if it had been killed,
stopped, or silent in this protocol for too long. All other output is dropped, and is not a sign of life: a line that is
not a JSON object, one that is longer than LONGEST_LINE, and everything after its answer. So a child that prints without
end is ended like a silent one, and costs no more memory than its longest line.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from external import special_addresses
from external.processes import runner
from external.processes.rows import row_of, text
from external.processes.runner import Command, EndReason, ProgramEnd, StopSignal
from external.processes.serving import ANSWER, ARGUMENTS, KEEP, KEPT, NOT_KEPT, RAISED, UNKNOWN, Program, plain
from external.redaction import redacted

ROOT = Path(__file__).parents[2]
"""The folder of the packages."""
LONGEST_LINE = 2**26
"""Bytes: enough for the tables of a database, the points of years, or a hundred damaged files with their full names."""
OTHER_CODE = (
    "it knows the order {!r} differently from this process ({}): the code has changed since; restart this process"
)


def argv_of(module: str) -> tuple[str, ...]:
    """The command line of a process that calls `main` of `module`, and takes nothing from its surroundings."""
    main = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main()"
    return sys.executable, "-I", "-c", main, str(ROOT)


class NoAnswer(Exception):
    """A child has `ended` without an answer. The message is its last output, in one line."""

    def __init__(self, ended: ProgramEnd, text: str) -> None:
        super().__init__(text)
        self.ended = ended

    @property
    def is_stopped(self) -> bool:
        return self.ended.ending is EndReason.STOPPED

    @property
    def is_silent(self) -> bool:
        return self.ended.ending is EndReason.STALLED


@dataclass
class Order:
    """An order, and its results so far: run `argv` with `given`, and give `on_line` each line that it prints.

    `facts`: the arguments of its function. `terms`: the conditions that the child keeps to (`serving`). `take` gets its
    messages on the way, and `keep` the facts that should be kept. `secrets` are removed from all texts of a failure.
    """

    program: Program
    do: str
    facts: Mapping[str, Any]
    terms: Mapping[str, Any] = field(default_factory=dict)
    take: Callable[[dict[str, Any]], object] = lambda line: None
    keep: Callable[[Any], object] = lambda facts: None
    secrets: Sequence[str] = ()
    signs: int = 0
    """The number of its lines, for a sign of life."""
    answers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def argv(self) -> tuple[str, ...]:
        return argv_of(self.program.module)

    @property
    def given(self) -> bytes:
        terms = {"loopback": special_addresses.loopback_is_open} | dict(self.terms)
        return json.dumps({"do": self.do, "facts": self.facts, "terms": terms}, default=plain).encode()

    def on_line(self, line: str) -> None:
        if self.answers or (found := row_of(line)) is None:
            return
        self.signs += 1
        if found.keys() & {ANSWER, RAISED, UNKNOWN}:
            self.answers.append(found)
        elif KEEP in found:
            self.keep(found[KEEP])
        elif found:
            self.take(found)

    def answer(self, ended: ProgramEnd) -> Any:
        """The answer, once its process has ended. Raises: the exception that the child has raised; NoAnswer."""
        for answer in self.answers:
            if ANSWER in answer:
                return answer[ANSWER]
            if kind := self.program.raises.get(text(answer, RAISED)):
                arguments = answer.get(ARGUMENTS)
                raise kind(*(self._shown(each) for each in (arguments if isinstance(arguments, list) else ())))
            unknown = answer.get(UNKNOWN) or f"no word {answer.get(RAISED)!r}"
            raise NoAnswer(ended, OTHER_CODE.format(self.do, self._shown(unknown)))
        raise NoAnswer(ended, self._shown(" ".join(ended.last_lines[-1:])))

    def _shown(self, value: Any) -> Any:
        return redacted(value, self.secrets) if isinstance(value, str) else value


def give(
    order: Order,
    stop: StopSignal,
    *,
    silent_for: float,
    grace: float = 0.0,
    kept: Callable[[Any], object] | None = None,
) -> Any:
    """Give an order, and block until its process has ended: by itself, by `stop`, or because it was silent for
    `silent_for` seconds. `kept` keeps the facts that the child asks for, and returns True if it did; if it is None,
    nothing is kept.

    Returns the answer. Raises: the exception that the child has raised; NoAnswer; OSError if no process can be started.
    """
    heard, said = os.pipe()
    order.terms = {**order.terms, "heard_at": heard}
    order.keep = lambda facts: os.write(said, KEPT if kept and kept(facts) else NOT_KEPT)
    command = Command(
        order.argv,
        stall_timeout=silent_for,
        grace=grace,
        given=order.given,
        inherited=(heard,),
        longest_line=LONGEST_LINE,
    )
    try:
        ended = runner.run(command, stop=stop, on_line=order.on_line, sign_of_life=lambda: order.signs)
    finally:
        os.close(heard)
        os.close(said)
    return order.answer(ended)
