"""Two ways to use a page: with a mouse, or by keys alone."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from playwright.sync_api import Locator, Page, expect

from tests.web.browser.looks import focus_problem

MOST_TABS = 300
"""Stops on the way to a control; pages with large tables have many."""
_HAS_FOCUS = "(element) => element === document.activeElement"
_HOLDS_FOCUS = """
(element) => element.contains(document.activeElement) || document.activeElement?.name === element.name
"""


class Hand(Protocol):
    """Uses controls as a person does."""

    def press(self, control: Locator) -> None:
        """Follow a link, press a button, open a summary."""

    def fill(self, field: Locator, text: str) -> None:
        """Replace what a field holds."""

    def choose(self, select: Locator, label: str) -> None:
        """Choose an option by what it says, or by the beginning of that."""

    def pick(self, radio: Locator) -> None:
        """Choose one of a group of radio buttons."""

    def give(self, field: Locator, file: Path) -> None:
        """Choose a file."""


class Mouse:
    """Points and clicks."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def press(self, control: Locator) -> None:
        control.click()

    def fill(self, field: Locator, text: str) -> None:
        field.fill(text)

    def choose(self, select: Locator, label: str) -> None:
        select.select_option(value=_value_of(select, label))

    def pick(self, radio: Locator) -> None:
        radio.check()

    def give(self, field: Locator, file: Path) -> None:
        field.set_input_files(file)


class Keys:
    """Tab, Enter, Space, arrows and letters; at every stop it must be seen where the focus is."""

    def __init__(self, page: Page) -> None:
        self._page = page
        # Somebody always listens: else a chooser may open before the browser is told that one is awaited.
        page.on("filechooser", lambda _: None)

    def press(self, control: Locator) -> None:
        self._reach(control)
        # Links know Enter alone.
        is_link = control.evaluate("(element) => element.tagName === 'A'")
        self._page.keyboard.press("Enter" if is_link else "Space")

    def fill(self, field: Locator, text: str) -> None:
        self._reach(field)
        self._page.keyboard.press("ControlOrMeta+a")
        self._page.keyboard.press("Delete")
        self._page.keyboard.type(text)
        expect(field).to_have_value(text)

    def choose(self, select: Locator, label: str) -> None:
        self._reach(select)
        wanted = _value_of(select, label)
        values = select.evaluate("(select) => [...select.options].map((one) => one.value)")
        for _ in values:
            at = select.evaluate("(select) => select.value")
            if at == wanted:
                return
            self._page.keyboard.press("ArrowDown" if values.index(at) < values.index(wanted) else "ArrowUp")
        expect(select).to_have_value(wanted)

    def pick(self, radio: Locator) -> None:
        self._reach(radio, _HOLDS_FOCUS)
        for _ in range(20):
            if radio.is_checked():
                return
            self._page.keyboard.press("ArrowDown")
        expect(radio).to_be_checked()

    def give(self, field: Locator, file: Path) -> None:
        self._reach(field)
        with self._page.expect_file_chooser() as chooser:
            self._page.keyboard.press("Enter")
        chooser.value.set_files(file)

    def _reach(self, control: Locator, is_there: str = _HAS_FOCUS) -> None:
        expect(control).to_be_visible()
        for _ in range(MOST_TABS):
            if control.evaluate(is_there):
                problem = focus_problem(self._page)
                assert not problem, problem
                return
            self._page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {control}")


def _value_of(select: Locator, label: str) -> str:
    options: list[list[str]] = select.evaluate(
        "(select) => [...select.options].map((one) => [one.label.trim(), one.value])"
    )
    exact = [value for text, value in options if text == label]
    found = exact or [value for text, value in options if text.startswith(label)]
    assert found, f"no option {label!r} among {[text for text, _ in options]}"
    return found[0]
