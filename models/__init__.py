"""How it is predicted: the gate, its runtimes, artifacts, training; `build` makes a ready guard."""
