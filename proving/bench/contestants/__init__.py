"""The participants: `CONTESTANTS` by name, in the order of the tables."""

from proving.bench.contestant import Contestant
from proving.bench.contestants.backups import BackupsByCopy, BackupsContestant
from proving.bench.contestants.capped import CappedFloor, CappedOurs
from proving.bench.contestants.delivery import BareDelivery, Delivery
from proving.bench.contestants.django_q2 import DjangoQ2
from proving.bench.contestants.django_tasks import DjangoTasks
from proving.bench.contestants.events import Events, EventsByCopy
from proving.bench.contestants.lanes import LanesOurs
from proving.bench.contestants.our_statements import OurStatements
from proving.bench.contestants.ours import Ours
from proving.bench.contestants.pgqueuer import Pgqueuer
from proving.bench.contestants.procrastinate import Procrastinate
from proving.bench.contestants.raw import BATCH, Raw
from proving.bench.contestants.virtual import Virtual

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
        BackupsContestant(),
        BackupsByCopy(),
        Events(),
        EventsByCopy(),
        Delivery(),
        BareDelivery(),
        Virtual(),
    )
}
