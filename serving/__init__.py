"""The proxy: settings, routes, upstream client, telemetry, handoff log."""
