from collections.abc import Callable
from datetime import datetime

IN_NEED: list[Callable[[datetime], list[str]]] = []
"""What other apps ask for the summary: in sentences, what needs a person."""
HINTS: list[Callable[[datetime], list[str]]] = []
"""What is not wrong, and is to be known beside that: in sentences, each with what to do."""
