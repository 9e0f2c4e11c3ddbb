"""The same without a mouse, and with the focus always in sight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.web.browser.hands import Keys
from tests.web.browser.stack import Stack
from tests.web.browser.story import Story, tell
from tests.web.browser.visitor import Visitor

pytestmark = pytest.mark.model


def test_from_signing_in_to_rolling_back_by_keys_alone(
    stack: Stack, make_visitor: Callable[..., Visitor], tmp_path: Path
) -> None:
    visitor = make_visitor(stack.url)
    tell(Story(visitor, Keys(visitor.page), stack, tmp_path))
