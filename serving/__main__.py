"""``python -m serving`` is ``guard-serve``."""

import sys

from serving.cli import main

sys.exit(main())
