"""The way in, as people who hold an access token take it."""

from __future__ import annotations

from playwright.sync_api import Page


def sign_in(page: Page, token: str) -> None:
    """Sign in as somebody who has just opened a browser; ends at the list of jobs."""
    page.goto("/sign-in")
    sign_in_here(page, token)
    page.wait_for_url("**/jobs")


def sign_in_here(page: Page, token: str) -> None:
    """Sign in on the page that asks for it."""
    page.locator("summary", has_text="Use an access token instead").click()
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in with the token").click()
    page.wait_for_url(lambda url: "/sign-in" not in url)
