"""One seed from its world to its verdict."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from proving.chaos.protocol.actor import State
from proving.chaos.protocol.baton import Deadlock, Stuck
from proving.chaos.protocol.choices import Choices
from proving.chaos.protocol.clocks import Clocks
from proving.chaos.protocol.invariants import Invariants
from proving.chaos.protocol.monitor import Monitor
from proving.chaos.protocol.violation import Violation
from proving.chaos.protocol.world import World, make

LEAST_CHOICES, MOST_CHOICES = 30, 100
SETTLERS = ("settler", "silences")
"""Each has its turn twice: with a batch that it could not write, and with the rest that others held locked."""


@dataclass
class SeedVerdict:
    """The result of a seed: the choices that were made, and the rule that was broken, if any."""

    seed: int
    lines: list[str] = field(default_factory=list)
    rule: str = ""
    text: str = ""
    met: Counter[str] = field(default_factory=Counter)
    steps: list[str] = field(default_factory=list)
    """All choices, including those that bring it to rest, each with the deed of its thread."""


class Player:
    """Plays seeds, one after the other, in one database. `memories`: caches that are emptied before each."""

    def __init__(self, monitor: Monitor, clocks: Clocks, memories: Sequence[Any] = ()) -> None:
        self.monitor, self.clocks, self.memories = monitor, clocks, memories

    def play(self, seed: int, lines: Sequence[str] | None = None) -> SeedVerdict:
        """Play a seed: with the choices that it draws, or with those of `lines`, if they are possible."""
        verdict = SeedVerdict(seed)
        for memory in self.memories:
            memory.clear()
        rng = Random(seed)  # noqa: S311 - no secret
        world = make(seed, rng, self.monitor, self.clocks)
        try:
            audit = Invariants(world)
            verdict.met = audit.met
            choices = Choices(world, audit, rng)
            choices.steps = verdict.steps
            for line in lines if lines is not None else _drawn(rng, choices):
                verdict.lines.append(line)
                verdict.met[line.split()[0] if " " in line else "steps"] += 1
                if not choices.do(line):
                    verdict.lines.pop()
            _come_to_rest(world, choices)
            audit.look_at_the_end()
        except Violation as found:
            verdict.rule, verdict.text = found.rule, found.text
        except Deadlock as found:
            verdict.rule, verdict.text = "a deadlock", str(found)
        except Stuck as found:
            verdict.rule, verdict.text = "the simulation is stuck", str(found)
        finally:
            world.end()
        return verdict


def _drawn(rng: Random, choices: Choices) -> Iterator[str]:
    for _ in range(rng.randint(LEAST_CHOICES, MOST_CHOICES)):
        lines, weights = zip(*choices.enabled(), strict=True)
        yield rng.choices(lines, weights)[0]


def _come_to_rest(world: World, choices: Choices) -> None:
    """Let everything under way end, and let each worker beat, write the results that it kept, and look."""
    world.baton.is_read_only = False
    for worker in world.living():
        if worker.is_paused:
            choices.do(f"wake w{worker.number}")
    _finish(world, choices)
    for worker in world.living():
        for name in ("heartbeat", *SETTLERS, *SETTLERS, "main"):
            choices.do(f"w{worker.number}.{name}")
            _finish(world, choices)


def _finish(world: World, choices: Choices) -> None:
    for _ in range(400):
        waiting = [
            actor
            for actor in world.baton.actors
            if actor.state in (State.PARKED, State.BACK)
            or actor.lingers
            or (actor.state is State.IDLE and actor.is_ready())
        ]
        if not waiting:
            return
        choices.do(waiting[0].name)
    raise Violation(
        "it does not come to rest", ", ".join(f"{each} {each.state.value} {each.statement}" for each in waiting)
    )
