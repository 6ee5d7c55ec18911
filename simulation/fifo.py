"""The scheduler that came before: a queue by due time, one poller, and a day from the end of a backup to the next.

The poller asks the first of the queue; one that answers gets a unit, and while none is free the poller waits. One that
is silent for the time-out gets a magic packet and goes to the end of the queue. An interrupted backup does likewise.
"""

import heapq
from collections import deque

from simulation.machines import DAY
from simulation.results import Ledger

ANSWER = 0.05


def simulate(ledger: Ledger) -> None:
    """Let the fleet's time pass and record the scheduler's work."""
    machines = ledger.machines
    due = [(0.0, machine.number) for machine in machines]
    heapq.heapify(due)
    backed_up = {machine.number for machine in machines if machine.source.backed_up}
    timeout = {policy.name: policy.connect_timeout for policy in ledger.fleet.policies}
    queue: deque[int] = deque()
    ends: list[tuple[float, int]] = []
    now = 0.0
    while now < ledger.end:
        while due and due[0][0] <= now:
            queue.append(heapq.heappop(due)[1])
        while ends and ends[0][0] <= now:
            heapq.heappop(ends)
        if len(ends) >= ledger.fleet.units:
            now = ends[0][0]
            continue
        number = _first_in_window(ledger, queue, now)
        if number is None:
            now = min([each[0] for each in (due[:1] + ends[:1]) if each[0] > now] + [_next_opening(ledger, queue, now)])
            continue
        machine = machines[number - 1]
        if not machine.answers(now):
            now = round(now + timeout[machine.source.policy], 6)
            if machine.source.wake_on_lan:
                ledger.packets += 1
                machine.wake(now)
            queue.append(number)
            continue
        ledger.answered(number, now)
        now = round(now + ANSWER, 6)
        run = machine.run(now, first=number not in backed_up)
        ledger.runs.append(run)
        heapq.heappush(ends, (run.ends, number))
        if run.succeeded:
            backed_up.add(number)
        heapq.heappush(due, (run.ends + (DAY if run.succeeded else 0.0), number))


def _first_in_window(ledger: Ledger, queue: deque[int], now: float) -> int | None:
    """Take the first source whose window is open out of the queue."""
    for _ in range(len(queue)):
        number = queue.popleft()
        if any(each.begins <= now < each.ends for each in ledger.calendars[number].openings):
            return number
        queue.append(number)
    return None


def _next_opening(ledger: Ledger, queue: deque[int], now: float) -> float:
    ahead = {each.begins for number in queue for each in ledger.calendars[number].openings if each.begins > now}
    return min(ahead, default=ledger.end)
