"""Errors of the benchmarks, grouped by what the user of ``guard-eval`` can do about them.

GuardError
└── EvalError
    ├── FormatError      correct the input file; the message names file and line
    ├── DataError        fetch or supply another data set
    ├── MetricError      the figure asked for does not exist in these records
    └── BackendError     the chat server gave no usable answer, or gave up
"""

from __future__ import annotations

from guard.errors import GuardError


class EvalError(GuardError):
    """Base of every error that ``guard-eval`` raises on purpose."""


class FormatError(EvalError):
    """A file is not what it should be; the message names the file and the line."""


class DataError(EvalError):
    """A data set is missing, damaged or unknown."""


class MetricError(EvalError):
    """A figure was asked for that these records do not define."""


class BackendError(EvalError):
    """A chat request failed for good, after every retry."""
