"""The files of a demo host: generated, different on each host, and awkward on purpose."""

import random
from pathlib import Path

AWKWARD_NAMES = (
    "notes with spaces.txt",
    "Übersicht 2026 — März.csv",
    "-rf",
    "100% done; $(date).log",
    "empty file",
    "quote ' and \" quote.md",
)
FOLDERS = ("Documents", "Documents/Invoices/2026", "Pictures", "Projects/alpha/src", ".config")


def generate(root: Path, *, seed: str, total_bytes: int) -> None:
    """Write some dozens of files of `total_bytes` together below `root`. Equal seeds give equal files."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    files = [root / name for name in AWKWARD_NAMES]
    files += [root / folder / f"{rng.choice('abcdefgh')}{number:03}.dat" for number, folder in enumerate(FOLDERS * 5)]
    weights = [0.0 if file.name == "empty file" else rng.random() ** 3 for file in files]
    for file, weight in zip(files, weights, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(rng.randbytes(int(total_bytes * weight / sum(weights))))
