"""The switch matrix: what it costs when one model continues another model's conversation (arXiv 2603.03111)."""
