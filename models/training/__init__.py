"""From data folder to artifact."""
