"""What people do with the dashboard, from signing in to rolling back, whatever they use it with."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.web.browser.hands import Hand
from tests.web.browser.stack import CHANNEL, LONG_SECONDS, MAP, NODE, TARGET, Stack
from tests.web.browser.visitor import Visitor

LONG_MS = 1000 * LONG_SECONDS
BAD_LINE = 3
ITEMS = (
    ("hens", "Anna keeps three hens. Question: How many hens has Anna? Answer in a few words.", "three hens"),
    (
        "paris",
        "Paris is the capital of France. Question: What is the capital of France? Answer in one word.",
        "Paris",
    ),
    ("boat", "Tariq borrowed a red boat. Question: What colour was the boat? Answer in one word.", "Red"),
    (
        "cat",
        "The cat eats twice a day. Question: How often does the cat eat? Answer in a few words.",
        "twice a day",
    ),
    ("wheel", "A peat cutter dug a wheel out of a bog. Question: Who dug out the wheel?", "A peat cutter"),
    ("bus", "The bus leaves at noon. Question: When does the bus leave? Answer in a few words.", "at noon"),
)
# Two prompts to search on and short answers take a core some twenty seconds; with these floors something is feasible.
CONTROLS = {
    "search-eps": "0.6",
    "search-tau": "0.9",
    "search-max_depth": "1",
    "search-max_pool": "2",
    "decoding-max_new_tokens": "8",
}
FRACTION = "0.3"


@dataclass
class Story:
    """One run through it. ``versions``: of the map, as they were published."""

    visitor: Visitor
    hand: Hand
    stack: Stack
    folder: Path
    job: str = ""
    versions: list[int] = field(default_factory=list)

    @property
    def page(self) -> Page:
        """Where it happens."""
        return self.visitor.page

    @property
    def name(self) -> str:
        """Of what is made."""
        return f"questions by {type(self.hand).__name__.lower()}"

    def sign_in(self) -> None:
        """With the administrator's token, from wherever a link has led."""
        self.page.goto("/")
        self.hand.press(self._summary("Use an access token instead"))
        self.hand.fill(self.page.get_by_label("Access token"), self.stack.token)
        self.hand.press(self.page.get_by_role("button", name="Sign in with the token"))
        self._is_at("Jobs")

    def upload(self) -> None:
        """A set with an error in one line; the error names the line, and the mended file is taken."""
        self._go("Data", "Calibration sets")
        with self.visitor.expecting(422):
            self._send(self._file(broken=True))
            expect(self.page.locator("main")).to_contain_text(f"Line {BAD_LINE}:")
        self._send(self._file(broken=False))
        self._is_at(self.name)

    def submit(self) -> None:
        """A job on that set, with a budget of seconds."""
        self.hand.press(self.page.get_by_role("link", name="New job with this set"))
        self._is_at("New job")
        self.hand.choose(self._control("target-choice"), TARGET)
        self.hand.choose(self._control("draft-method"), "prompt_lookup")
        self.hand.choose(self._control("domain-choice"), "qa")
        self.hand.press(self._summary("Format, division into two parts"))
        self.hand.fill(self._control("calibration-calibration_fraction"), FRACTION)
        for name, value in CONTROLS.items():
            self.hand.fill(self._control(name), value)
        self.hand.fill(self._control("name"), self.name)
        self.hand.press(self.page.get_by_role("button", name="Submit the job"))
        self._is_at(self.name)
        self.job = urlsplit(self.page.url).path.rsplit("/", 1)[1]

    def watch(self) -> None:
        """The job comes to its end before the visitor's eyes; the page is never loaded again."""
        self.page.evaluate("window.stays = true")
        # Drawn while the job runs, or once it has ended.
        expect(self.page.locator("[data-live=controls] .badge")).to_have_text("succeeded", timeout=LONG_MS)
        expect(self.page.locator("figure[data-chart=pareto] [data-chart-plot] svg")).to_be_visible(
            timeout=LONG_MS
        )
        assert self.page.evaluate("window.stays") is True

    def publish_dense(self) -> None:
        """From the job's own page, with the point that skips nothing."""
        # What the model finds may fail on held-out prompts.
        self.hand.press(self.page.get_by_role("link", name=re.compile("^Publish( with an override)?$")))
        self._is_at("Publish a version")
        self._name_map()
        self.hand.pick(self.page.get_by_role("radio", name="dense"))
        self._publish()

    def publish_sparse(self) -> None:
        """From a configuration of the table, over the held-out check if that refuses it."""
        self.page.goto(f"/jobs/{self.job}")
        self.hand.press(self.page.get_by_role("link", name="Configurations", exact=True))
        self.hand.press(
            self.page.locator(
                "#configurations tbody tr.selected th a, #configurations tr:has(.badge) a"
            ).first
        )
        expect(self.page.get_by_role("heading", level=1)).to_contain_text("Skip")
        self.hand.press(
            self.page.get_by_role("link", name=re.compile("^Publish (this configuration|with an override)$"))
        )
        self._is_at("Publish a version")
        self._name_map()
        reason = self.page.get_by_label(re.compile("^Why publish"))
        if reason.is_visible():
            self.hand.fill(reason, "to see it live")
        self._publish()

    def promote(self, number: int) -> None:
        """Let the channel point to a version; the running node takes it."""
        self.page.goto(f"/maps/{MAP}/versions/{number}")
        self.hand.press(self.page.get_by_role("link", name=re.compile(f"{CHANNEL}")).first)
        self._confirm(re.compile("^(Promote|Make the channel)$"))
        self.sees_node_at(number)

    def roll_back(self, number: int) -> None:
        """Let the channel point to the version before."""
        self.page.goto(f"/maps/{MAP}/channels/{CHANNEL}")
        self.hand.press(self.page.get_by_role("link", name=f"Roll back to version {number}"))
        self._confirm("Roll back")
        self.sees_node_at(number)

    def sees_node_at(self, number: int) -> None:
        """On the page of nodes, which keeps itself up to date."""
        self._go("Nodes", "Nodes")
        row = self.page.locator("#nodes tbody tr", has_text=NODE)
        expect(row.locator("td").nth(2)).to_have_text(str(number), timeout=LONG_MS)
        expect(row).to_contain_text("FRESH", timeout=LONG_MS)

    def sign_out(self) -> None:
        """From the menu of the user."""
        self.hand.press(self.page.locator(".user-menu > summary"))
        self.hand.press(self.page.get_by_role("button", name="Sign out"))
        self._is_at("Sign in")
        self.page.goto("/jobs")
        self._is_at("Sign in")

    def _go(self, label: str, heading: str) -> None:
        self.hand.press(self.page.locator(".site-nav").get_by_role("link", name=label, exact=True))
        self._is_at(heading)

    def _is_at(self, heading: str) -> None:
        expect(self.page.get_by_role("heading", level=1)).to_have_text(heading)

    def _summary(self, text: str) -> Locator:
        return self.page.locator("summary", has_text=text)

    def _control(self, name: str) -> Locator:
        return self.page.locator(f"#f-{name}")

    def _send(self, file: Path) -> None:
        self.hand.give(self._control("file"), file)
        self.hand.fill(self._control("name"), self.name)
        self.hand.press(self.page.get_by_role("button", name="Add the set"))

    def _file(self, *, broken: bool) -> Path:
        # What is in a set decides which set it is, and ids decide which prompts are searched on.
        lines = [
            json.dumps({"id": name, "prompt": prompt, "reference": reference, "meta": {"of": self.name}})
            for name, prompt, reference in ITEMS
        ]
        if broken:
            lines[BAD_LINE - 1] = lines[BAD_LINE - 1].replace('"prompt"', '"promt"')
        path = self.folder / f"{'broken' if broken else 'whole'}.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _name_map(self) -> None:
        """The map is new the first time, and its domain stays the only one."""
        choice = self._control("map")
        if choice.count():
            self.hand.choose(choice, MAP if MAP in choice.inner_text() else "A new map")
        if self._control("new_name").is_visible():
            self.hand.fill(self._control("new_name"), MAP)

    def _publish(self) -> None:
        self.hand.press(self.page.get_by_role("button", name="Publish the version"))
        expect(self.page.get_by_role("heading", level=1)).to_have_text(re.compile(f"^{MAP}, version"))
        self.versions.append(int(urlsplit(self.page.url).path.rsplit("/", 1)[1]))

    def _confirm(self, button: str | re.Pattern[str]) -> None:
        dialog = self.page.get_by_role("dialog")
        self.hand.fill(dialog.get_by_label("Why"), f"{self.name}, a test")
        self.hand.press(dialog.get_by_role("button", name=button))
        self._is_at(f"Channel {CHANNEL}")


def tell(story: Story) -> None:
    """All of it."""
    story.sign_in()
    story.upload()
    story.submit()
    story.watch()
    story.publish_dense()
    story.promote(story.versions[0])
    story.publish_sparse()
    story.promote(story.versions[1])
    story.roll_back(story.versions[0])
    story.sign_out()
