from collections.abc import Callable
from datetime import datetime

IN_NEED: dict[str, Callable[[datetime], list[str]]] = {}
"""What other apps ask for the summary, by the name of what they ask about: in sentences, what needs a person."""
HINTS: list[Callable[[datetime], list[str]]] = []
"""What is not wrong, and is to be known beside that: in sentences, each with what to do."""
PROGRESS: list[Callable[[list[int]], dict[int, dict[str, int]]]] = []
"""How far running records are: ids → bytes_done, bytes_total and files_done of each that is known."""
CALLED: list[Callable[[str], list[str]]] = []
"""What other apps ask for a search: the subjects of backups of what is called by each word of a text, some of them."""
