from queue import Empty, SimpleQueue


class Bell:
    """Wakes the main loop, from any thread and from a signal handler.

    Not a `threading.Event`: its lock is not reentrant, and a signal may arrive while the main thread holds it.
    """

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        self._rings.put(None)

    def wait(self, timeout: float) -> bool:
        """Sleep until rung, or for `timeout` seconds. Returns whether it was rung; earlier rings count."""
        try:
            self._rings.get(timeout=timeout)
        except Empty:
            return False
        while not self._rings.empty():
            self._rings.get()
        return True
