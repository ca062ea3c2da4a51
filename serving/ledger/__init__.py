"""The authorship ledger: which model said what the proxy relayed.

In process by default. With a store behind it (SQLite, or Redis for several replicas) it survives a restart, and what
one replica relayed is known to the others. No store ever holds text: keys are digests, values are names and times.
"""
