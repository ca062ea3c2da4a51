"""The benchmarks: sessions, metrics, the pivot benchmark and the switch matrix."""
