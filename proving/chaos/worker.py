"""A worker of the storm: `python -m proving.chaos.worker JOURNAL SEED GRACE`. DATABASE_URL names the database."""

import gc
import sys
from pathlib import Path

import django


def main(journal_path: Path, seed: int, grace: float) -> None:
    gc.disable()  # until all modules are loaded, as in manage.py
    django.setup()
    from jobs import conf
    from jobs.worker.process import WorkerProcess
    from proving.chaos.journal import JournalFile
    from proving.chaos.kinds import journal_to

    gc.enable()
    journal = JournalFile(journal_path)
    journal_to(journal, seed)
    worker = WorkerProcess(list(conf.queue_rules().values()), grace=grace)
    worker.install_signal_handlers()
    journal.start_pulse()
    worker.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
