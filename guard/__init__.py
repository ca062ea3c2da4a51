"""What is decided: conversations, the two-stage controller, policies. Standard library only."""
