from __future__ import annotations

import logging

import pytest

from models.logs import logging_config

_HOSTILE = "/a\x1b[2J\x9b\u202e"


@pytest.mark.parametrize("form", ["text", "json"])
def test_values_cannot_act_on_a_terminal(form):
    settings = logging_config(form)["formatters"]["structured"]
    formatter = settings.pop("()")(**settings)
    try:
        raise ValueError(_HOSTILE)
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("a", logging.INFO, "f", 1, "event %s\nnext", (_HOSTILE,), caught)
    record.path = _HOSTILE
    lines = formatter.format(record).split("\n")
    assert all(line.isprintable() for line in lines)
    assert "event /a\\u001b[2J\\u009b\\u202e\\nnext" in lines[0]
    if form == "text":
        assert lines[-1] == "ValueError: /a\\u001b[2J\\u009b\\u202e"
