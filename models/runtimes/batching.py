"""Dynamic batching: whatever has queued up while a pass ran becomes the next pass."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread

from models.runtimes.runtime import Pair

Pass = Callable[[Sequence[Pair]], list[float]]


@dataclass(slots=True)
class _Job:
    pairs: Sequence[Pair]
    answer: Future[list[float]] = field(default_factory=Future)


class Batcher:
    """Merges the calls of many threads into passes of one worker thread; no waiting for company."""

    def __init__(self, run_pass: Pass, max_batch: int) -> None:
        self._pass = run_pass
        self._max_batch = max_batch
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._worker = Thread(target=self._work, name="gate-batcher", daemon=True)
        self._worker.start()

    def run(self, pairs: Sequence[Pair]) -> list[float]:
        """Answer for ``pairs``; blocks until their pass is done and raises what the pass raised."""
        job = _Job(pairs)
        self._jobs.put(job)
        return job.answer.result()

    @property
    def waiting(self) -> int:
        """Calls that no pass has taken yet."""
        return self._jobs.qsize()

    def close(self) -> None:
        """Finish what is queued and stop."""
        self._jobs.put(None)
        self._worker.join()

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            jobs, stop = self._gather(first)
            self._answer(jobs)
            if stop:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        jobs, size = [first], len(first.pairs)
        while size < self._max_batch:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return jobs, True
            jobs.append(job)
            size += len(job.pairs)
        return jobs, False

    def _answer(self, jobs: list[_Job]) -> None:
        pairs = [pair for job in jobs for pair in job.pairs]
        try:
            logits: list[float] = []
            for start in range(0, len(pairs), self._max_batch):
                logits += self._pass(pairs[start : start + self._max_batch])
        except Exception as error:  # noqa: BLE001 - belongs to the callers, who wait in other threads
            for job in jobs:
                job.answer.set_exception(error)
            return
        for job in jobs:
            job.answer.set_result(logits[: len(job.pairs)])
            logits = logits[len(job.pairs) :]
