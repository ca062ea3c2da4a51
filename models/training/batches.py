"""From samples to batches of windows that have about the same length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from tokenizers import Encoding, Tokenizer

from models.training.samples import Sample
from models.window import Window, WindowSpec

Batch = tuple[list[Sample], list[Encoding]]


def spec_of(length: int) -> WindowSpec:
    """The window of ``length`` tokens; a long turn gets five twelfths of it where the history needs the room."""
    return WindowSpec(max_tokens=length, turn_tokens=max(24, length * 5 // 12))


class Batcher:
    """Renders samples and sorts them into batches.

    Args:
        tokenizer: of the encoder.
        spec: the window that is served.
        size: samples a batch.
    """

    def __init__(self, tokenizer: Tokenizer, spec: WindowSpec, size: int) -> None:
        self._tokenizer = tokenizer
        self._size = size
        self._window = Window(tokenizer, spec, cache_size=100_000)

    def batches(self, samples: Sequence[Sample], rng: Random) -> Iterator[Batch]:
        """Each sample once, in batches in random order."""
        pairs = [self._window.render(sample.thread, sample.turn) for sample in samples]
        rendered = list(zip(samples, self._tokenizer.encode_batch(pairs), strict=True))
        rendered.sort(key=lambda item: len(item[1]) + rng.random() * 4)
        cut = [rendered[start : start + self._size] for start in range(0, len(rendered), self._size)]
        rng.shuffle(cut)
        for batch in cut:
            yield [sample for sample, _ in batch], [encoding for _, encoding in batch]
