"""The gate under test, built by the same code that serving uses."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from eval.replay import SessionCache
from guard.guard import Guard
from guard.policy import Policy
from models.arguments import natural, probability


@dataclass(frozen=True)
class LoadedGate:
    """A guard and the ruling cache it was built with."""

    guard: Guard
    cache: SessionCache

    def facts(self, policy: Policy) -> dict[str, object]:
        """Id, threshold and the choices of the policy that decisions depend on."""
        scorer = self.guard.scorer
        threshold = scorer.threshold if policy.threshold is None else policy.threshold
        return {"gate_id": scorer.gate_id, "threshold": threshold, "resume": policy.resume, "standing": policy.standing}


def add_gate_arguments(parser: ArgumentParser) -> None:
    """Declare which gate is used, and how."""
    parser.add_argument(
        "--gate", default="shipped", metavar="ID", help="shipped (default), the folder of an artifact, or a hub id"
    )
    parser.add_argument(
        "--threshold", type=probability, help="p(PIVOT) that resets (default: the gate's calibrated one)"
    )
    parser.add_argument("--threads", type=natural, default=1, help="CPU threads of the gate (default 1)")


def load_gate(arguments: Namespace) -> LoadedGate:
    """Build the guard that the arguments name."""
    # Here and not at the top: reports and data commands should not wait for numeric libraries to load.
    from models.build import GateSettings, build_guard

    cache = SessionCache()
    return LoadedGate(build_guard(GateSettings(artifact=arguments.gate, threads=arguments.threads), cache), cache)
