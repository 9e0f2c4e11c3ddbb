"""Bodies of forms: read whole, or refused."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from flask import Request
from werkzeug.formparser import FormDataParser

from api.problems import BAD_REQUEST, ProblemError


class _WholeForms(FormDataParser):
    """A parser that takes no part of a form for the form; Werkzeug's own would say that nothing was sent."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """Stream, fields and files of a body; raises ProblemError for one that ends early or is no form."""
        self.silent = False
        make = self.stream_factory
        with ExitStack() as files:
            self.stream_factory = lambda *about, **more: files.enter_context(make(*about, **more))
            try:
                found = super().parse(*args, **kwargs)
            except ValueError:
                raise ProblemError(
                    BAD_REQUEST, "the body was cut short or is no well-formed form; send it again"
                ) from None
            # Those of a whole form stay open.
            files.pop_all()
            return found


class PageRequest(Request):
    """A request for a page."""

    form_data_parser_class = _WholeForms
