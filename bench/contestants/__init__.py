"""Who takes part. `CONTESTANTS` by name, in the order of the tables."""

from bench.contestant import Contestant
from bench.contestants.backups import Backups, BackupsByCopy
from bench.contestants.capped import CappedFloor, CappedOurs
from bench.contestants.delivery import BareDelivery, Delivery
from bench.contestants.django_q2 import DjangoQ2
from bench.contestants.django_tasks import DjangoTasks
from bench.contestants.events import Events, EventsByCopy
from bench.contestants.lanes import LanesOurs
from bench.contestants.our_statements import OurStatements
from bench.contestants.ours import Ours
from bench.contestants.pgqueuer import Pgqueuer
from bench.contestants.procrastinate import Procrastinate
from bench.contestants.raw import BATCH, Raw
from bench.contestants.virtual import Virtual

CONTESTANTS: dict[str, Contestant] = {
    contestant.name: contestant
    for contestant in (
        Ours("ours-async", is_async=True),
        Ours("ours-sync", is_async=False),
        OurStatements("statements-overlapped", overlapped=True),
        OurStatements("statements-serial", overlapped=False),
        Raw("raw-batched", BATCH),
        Raw("raw-single", 1, at_most=5000),
        Pgqueuer(),
        Procrastinate(),
        DjangoQ2(),
        DjangoTasks(),
        CappedOurs(),
        CappedFloor(),
        LanesOurs(),
        Backups(),
        BackupsByCopy(),
        Events(),
        EventsByCopy(),
        Delivery(),
        BareDelivery(),
        Virtual(),
    )
}
