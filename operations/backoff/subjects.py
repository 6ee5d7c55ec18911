"""What is drawn: a rule with the name that people know it by. Pure."""

from dataclasses import dataclass, replace
from typing import Any

from jobs.durations import span
from jobs.retries import ALGORITHMS, LARGEST, Rule
from operations.backoff.figures import Figures, figures
from operations.backoff.series import Series, series
from operations.backoff.waits import describe_giving_up

JOBS = 100
RETRIES = 12
"""As in the article's pictures, when nobody says another number."""


@dataclass(frozen=True)
class Subject:
    """A rule under a name."""

    name: str
    rule: Rule

    @property
    def told(self) -> str:
        """The algorithm unless it is the name, its parameters, and what limits it, in one line."""
        algorithm = ALGORITHMS[self.rule.algorithm]
        given = {**algorithm.defaults, **self.rule.parameters}
        parts = [self.rule.algorithm] if self.name != self.rule.algorithm else []
        parts += [f"{key} {value if isinstance(value, str) else f'{value:g} s'}" for key, value in given.items()]
        if not self.rule.waits_for_sweeps and self.rule.max_delay < LARGEST:
            parts.append(f"no wait longer than {span(self.rule.max_delay)}")
        return " · ".join(parts)


def of_algorithm(name: str, parameters: dict[str, Any] | None = None) -> Subject:
    """An algorithm with its defaults, but for `parameters`."""
    return Subject(name, Rule(name, parameters or {}))


def every_algorithm() -> list[Subject]:
    """All algorithms with their defaults; those with jitter also with each kind of it."""
    found = []
    for name, algorithm in sorted(ALGORITHMS.items()):
        found.append(of_algorithm(name))
        found += [
            Subject(f"{name}, {jitter} jitter", Rule(name, {"jitter": jitter}))
            for jitter in algorithm.choices.get("jitter", ())
            if jitter != algorithm.defaults["jitter"]
        ]
    return found


def apart(subjects: list[Subject]) -> list[Subject]:
    """The same, with a number behind the name of a second one that has the name of the first."""
    names = [subject.name for subject in subjects]
    return [
        replace(subject, name=f"{subject.name} (2)") if subject.name in names[:place] else subject
        for place, subject in enumerate(subjects)
    ]


def scaled(subject: Subject, factor: float) -> Subject:
    """The same with every wait `factor` times as long. What waits for sweeps stays: their times are fixed."""
    rule = subject.rule
    given = {**ALGORITHMS[rule.algorithm].defaults, **rule.parameters}
    parameters = {key: value if isinstance(value, str) else value * factor for key, value in given.items()}
    return replace(subject, rule=replace(rule, parameters=parameters, max_delay=rule.max_delay * factor))


@dataclass(frozen=True)
class Study:
    """A subject with its retries and figures."""

    subject: Subject
    series: Series
    figures: Figures

    @property
    def gives_up(self) -> str:
        return describe_giving_up(self.subject.rule)


def study(subject: Subject, *, jobs: int = JOBS, retries: int = RETRIES, seed: int = 0, first_id: int = 1) -> Study:
    """Work out what there is to show. Equal arguments give equal results. Raises: ValueError as `series`."""
    found = series(subject.rule, jobs=jobs, retries=retries, seed=seed, first_id=first_id)
    return Study(subject, found, figures(found, seed=seed, first_id=first_id))
