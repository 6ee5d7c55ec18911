"""Runs in virtual time, two at a time: the machine's other work does not change their results."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from proving.bench.contestants import CONTESTANTS
from proving.bench.processes import call
from proving.bench.stage import Stage

C = TypeVar("C")
NAME = "virtual"


def side_by_side(stage: Stage, command: str, cases: Mapping[C, tuple[str, dict[str, Any]]]) -> Iterator[tuple[C, Any]]:
    """Run `command` once a case, with a preset and options, each in a separate database.

    Yields the cases in their order with their results; nothing without the contestant, and for a case that fails.
    """
    if not stage.cast([NAME]):
        return
    contestant = CONTESTANTS[NAME]
    template = stage.tables_of(contestant)

    def measure(number: int, preset: str, options: dict[str, Any]) -> Any:
        with stage.server.copy_of(template, f"virtual-{number}") as database:
            return call(contestant, command, url=stage.server.url(database), preset=preset, **options)

    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        runs = [pool.submit(measure, number, *given) for number, given in enumerate(cases.values())]
        for number, (case, running) in enumerate(zip(cases, runs, strict=True)):
            with stage.trying(contestant):
                result = running.result()
                stage.say(f"{command}: {number + 1} of {len(runs)} runs")
                yield case, result
