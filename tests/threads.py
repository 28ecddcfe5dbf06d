"""Work done by several threads at once."""

import threading
from collections.abc import Callable


def at_once(work: Callable[[int], object], count: int) -> None:
    """Call ``work`` with 0 .. count - 1, each in a thread of its own, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
