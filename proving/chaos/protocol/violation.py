"""What a simulation finds: a rule that was broken, and how."""


class Violation(Exception):
    """`rule` names it, the same for every seed that breaks it; `text` says what happened, with its numbers."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule, self.text = rule, text
