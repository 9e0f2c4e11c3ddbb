"""What a version will hold, before it is published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from api.greenlets import aside
from skipmap.client.maps import VersionView
from skipmap.errors import InvalidInput
from skipmap.maps.document import build_map
from skipmap.maps.router import Confusion, RouterDocument
from web.views.map_form import PublishForm, checked_router
from web.views.map_offers import Choice, Offer

# A map holds the other points of the front as well.
_CHOICE_BYTES = 500


@dataclass(frozen=True)
class Preview:
    """The next version of a map. ``newest``: the one that there is, None for a new map.

    ``unexplained``: domains whose point the held-out check refuses and that have no reason yet; ``problem``: why it
    cannot be published as it stands.
    """

    name: str
    newest: VersionView | None
    rows: Sequence[tuple[Offer, Choice]]
    unexplained: Sequence[str]
    router: RouterDocument | None
    problem: str | None

    @property
    def number(self) -> int:
        """The number that it gets, unless somebody else publishes first."""
        return 1 if self.newest is None else self.newest.version + 1

    @property
    def left_out(self) -> list[str]:
        """Domains that the newest version has and this one would not."""
        here = {offer.domain for offer, _ in self.rows}
        return [] if self.newest is None else sorted(self.newest.domains.keys() - here)

    @property
    def unrouted(self) -> list[str]:
        """Domains that the router does not know."""
        if self.router is None:
            return []
        return sorted({offer.domain for offer, _ in self.rows} - self.router.domains.keys())

    @property
    def confusion(self) -> Confusion | None:
        """How the router took held-out prompts."""
        return None if self.router is None else self.router.confusion


def make_preview(form: PublishForm, offers: Sequence[Offer], newest: VersionView | None) -> Preview:
    """What the form would publish."""
    size = len(form.router) + _CHOICE_BYTES * sum(len(offer.choices) for offer in offers)
    return aside(lambda: _make(form, offers, newest), size)


def _make(form: PublishForm, offers: Sequence[Offer], newest: VersionView | None) -> Preview:
    rows = [(offer, offer.choice(form.points.get(offer.job.id))) for offer in offers]
    router, problem = None, None
    try:
        router = checked_router(form)
        if rows:
            build_map(
                [offer.result for offer, _ in rows],
                "preview",
                version=1,
                points={offer.domain: choice.point.skip for offer, choice in rows},
                router=router,
            )
    except InvalidInput as error:
        problem = str(error)
    unexplained = [
        offer.domain
        for offer, choice in rows
        if choice.problem is not None and not form.override_of(offer.job.id)
    ]
    return Preview(form.name, newest, rows, unexplained, router, problem)
