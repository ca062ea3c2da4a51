"""Draw random conversations until there were enough or the time is over; exit status 1 when an invariant broke.

The seed of a failed case is printed, and ``--seed`` with it runs that case first.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.fuzz import Invariants, check_edit, invariants, random_policy
from tests.random_chats import random_body, random_chat


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; each case has the next one")
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=0, help="stop then, however many there were; 0: never")
    arguments = parser.parse_args()
    started = time.monotonic()
    done = 0
    with invariants(arguments.seed) as everything:
        for seed in range(arguments.seed, arguments.seed + arguments.conversations):
            if arguments.seconds and time.monotonic() - started > arguments.seconds:
                break
            try:
                _case(seed, everything)
            except AssertionError as error:
                sys.exit(f"fuzz: case {seed} broke an invariant: {error}")
            done += 1
    print(f"fuzz: {done} conversations in {time.monotonic() - started:.0f} s, no invariant broken")


def _case(seed: int, everything: Invariants) -> None:
    random = Random(seed)  # noqa: S311 - a test
    if seed % 2:
        everything.check(random)
    else:
        messages = random_chat(random)
        check_edit(messages, random_body(messages, random), random_policy(random), seed)


if __name__ == "__main__":
    main()
