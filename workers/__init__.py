"""Celery workers that evaluate chunks, and the reconciler that keeps the queue whole."""
