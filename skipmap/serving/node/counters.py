"""What a node has served, per domain and map version."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from threading import Lock

from skipmap.maps.router import UNKNOWN
from skipmap.serving.report import DomainCounters

MAX_DOMAINS = 200
"""A report takes 256; a node that lives through more names puts later ones under ``unknown``."""


@dataclass
class Served:
    """Sums over answers; see ``skipmap.serving.report.DomainCounters``."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    verification_steps: int = 0
    emitted_tokens: int = 0
    accepted_drafts: int = 0
    blocks_run: int = 0
    blocks_dense: int = 0


class Counters:
    """Counts that only grow; the engine adds, whoever reports reads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._served: dict[tuple[str, int | None], Served] = {}
        self._domains: set[str] = set()

    def add(self, domain: str | None, version: int | None, more: Served) -> None:
        """Add to a domain's sums; None is traffic of no domain of the map."""
        with self._lock:
            name = UNKNOWN if domain is None else domain
            if name not in self._domains and len(self._domains) >= MAX_DOMAINS:
                name = UNKNOWN
            self._domains.add(name)
            _add(self._served.setdefault((name, version), Served()), more)

    def by_version(self) -> dict[tuple[str, int | None], Served]:
        """Copies of the sums by domain and map version."""
        with self._lock:
            return {key: replace(served) for key, served in self._served.items()}

    def by_domain(self) -> dict[str, DomainCounters]:
        """The sums by domain, as a report carries them."""
        sums: dict[str, Served] = {}
        for (domain, _), served in self.by_version().items():
            _add(sums.setdefault(domain, Served()), served)
        return {domain: DomainCounters(**asdict(served)) for domain, served in sums.items()}


def _add(to: Served, more: Served) -> None:
    for name, value in asdict(more).items():
        setattr(to, name, getattr(to, name) + value)
