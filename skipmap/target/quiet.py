"""Quiet loading: progress bars and hints of transformers off, errors left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from logging import ERROR
from threading import RLock

from tqdm.std import tqdm
from transformers.utils import logging

_LOCK = RLock()


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Switch off progress bars and messages below error level, and put both back afterwards.

    The switches are the process's own, so one thread loads at a time.
    """
    with _LOCK:
        verbosity, bars, bar_init = logging.get_verbosity(), logging.is_progress_bar_enabled(), tqdm.__init__
        logging.set_verbosity(ERROR)
        logging.disable_progress_bar()
        # The GGUF reader makes its bar past the library's own switch.
        tqdm.__init__ = partialmethod(bar_init, disable=True)
        try:
            yield
        finally:
            tqdm.__init__ = bar_init
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()
