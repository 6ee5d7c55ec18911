"""Pictures of backoff: when the retries of many jobs that failed together come, and what that does to the load.

`study.py` works out the retries and counts, `waits.py` puts the waits into words, `charts.py` draws with matplotlib,
for files and pages alike. A page is not drawn on: its `<img>` asks for the file, and so does the admin's preview.
"""

FORMATS = ("svg", "png")
SCALES = ("auto", "linear", "log")
THEMES = ("light", "dark")
LIMITS = ("max_delay", "max_failures", "give_up_after")
"""Of a rule, beside its parameters."""
SIZES = {1: (1150, 620), 2: (1260, 760)}
"""Of a picture of one study, or of two side by side: hundredths of an inch, and CSS pixels of a page."""
