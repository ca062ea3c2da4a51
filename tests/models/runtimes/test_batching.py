from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from guard.errors import ScoringError
from models.runtimes.batching import Batcher
from models.runtimes.runtime import Pair


def lengths(pairs: Sequence[Pair]) -> list[float]:
    return [float(len(turn)) for _, turn in pairs]


def test_every_caller_gets_its_own_answers() -> None:
    """Answers of merged passes go back to the callers in their order, whatever the sizes."""
    batcher = Batcher(lengths, max_batch=4)
    with ThreadPoolExecutor(8) as pool:
        calls = [[("", "x" * (n + k)) for k in range(n % 6)] for n in range(60)]
        answers = list(pool.map(batcher.run, calls))
    batcher.close()
    assert answers == [lengths(call) for call in calls]


def test_what_queues_up_during_a_pass_becomes_the_next_pass() -> None:
    """Concurrent calls share passes instead of waiting in line one by one."""
    started, release = Event(), Event()
    sizes: list[int] = []

    def slow(pairs: Sequence[Pair]) -> list[float]:
        sizes.append(len(pairs))
        started.set()
        release.wait(5)
        return lengths(pairs)

    batcher = Batcher(slow, max_batch=64)
    with ThreadPoolExecutor(11) as pool:
        first = pool.submit(batcher.run, [("", "a")])
        started.wait(5)
        rest = [pool.submit(batcher.run, [("", "b")]) for _ in range(10)]
        while batcher.waiting < 10:
            pass
        release.set()
        assert [call.result() for call in [first, *rest]] == [[1.0]] * 11
    batcher.close()
    assert sizes == [1, 10]


def test_an_error_reaches_its_callers_and_the_worker_lives_on() -> None:
    """A failed pass raises in the threads that asked, and later passes work."""
    fail = [True]

    def flaky(pairs: Sequence[Pair]) -> list[float]:
        if fail.pop() if fail else False:
            raise ScoringError("error", "lost device")
        return lengths(pairs)

    batcher = Batcher(flaky, max_batch=4)
    with pytest.raises(ScoringError, match="lost device"):
        batcher.run([("", "a")])
    assert batcher.run([("", "ab")]) == [2.0]
    batcher.close()
