"""The finding of a simulation: a rule that was broken, and how."""


class Violation(Exception):
    """A broken rule. `rule`: its name, the same for every seed that breaks it; `text`: the event with its numbers."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule, self.text = rule, text
