"""Work done by several threads at once."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


def at_once(work: Callable[[int], object], count: int) -> None:
    """Call ``work`` with 0 .. count - 1, each in a thread of its own, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def interleaved(work: Callable[[int], object], count: int) -> list[object]:
    """What ``work`` returns for 0 .. count - 1, from threads that take turns as often as they can."""
    with _turns_of(1e-6), ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


@contextmanager
def _turns_of(seconds: float) -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
