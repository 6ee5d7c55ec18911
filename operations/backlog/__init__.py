from collections.abc import Callable
from datetime import datetime

IN_NEED: list[Callable[[datetime], list[str]]] = []
"""What other apps ask for the summary: in sentences, what needs a person."""
