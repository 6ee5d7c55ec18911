"""Runs of an engine whose programs may read no more than their account."""

import ctypes
import dataclasses
import json
import os
from collections.abc import Callable

from engines.base import BackupTask, EngineResult, Verdict
from tests.engines.peers import run

OVERRIDE, SEARCH = 1, 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""
VERSION_3, DROP = 0x20080522, 24
"""Of the structure of capabilities; and PR_CAPBSET_DROP."""


def without_capabilities(task: BackupTask) -> EngineResult:
    """Run the engine in a process that reads only what its account may, though it be root, and so do its programs."""

    def answer() -> str:
        result = run(task)
        return json.dumps(dataclasses.asdict(result) | {"verdict": result.verdict.name})

    facts = json.loads(in_a_child(answer))
    return EngineResult(**facts | {"verdict": Verdict[facts["verdict"]], "warnings": tuple(facts["warnings"])})


def in_a_child(function: Callable[[], str]) -> str:
    """The result of a function in such a process."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            drop_capabilities()
            os.write(write, function().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


def drop_capabilities() -> None:
    """Let this process, and the programs that it starts, pass over no permission of a file."""
    system = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(VERSION_3, 0), (ctypes.c_uint32 * 6)()
    for number in (OVERRIDE, SEARCH):
        system.prctl(DROP, number, 0, 0, 0)
    if system.capget(header, data) == 0:
        for at in (0, 1, 2):
            data[at] &= ~(1 << OVERRIDE | 1 << SEARCH)
        system.capset(header, data)
