"""Skipmap: find, per domain, the target layers that speculative verification can skip."""

__version__ = "0.1.0"
