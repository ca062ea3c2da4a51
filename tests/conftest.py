"""Settings of every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Tests run on busy machines, where the time of an example says nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
