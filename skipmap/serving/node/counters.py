"""What a node has served, per domain and map version."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from threading import Lock

from skipmap.maps.router import UNKNOWN
from skipmap.serving.report import DomainCounters

MAX_DOMAINS = 200
"""A report takes 256; a node that lives through more names puts later ones under ``unknown``."""
MAX_VERSIONS = 20
"""Of these map versions, the last that were used, the sums are kept apart."""


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
        self._names: set[str] = set()
        self._apart: dict[int | None, dict[str, Served]] = {}

    def add(self, domain: str | None, version: int | None, more: Served) -> None:
        """Add to a domain's sums; None is traffic of no domain of the map."""
        with self._lock:
            name = UNKNOWN if domain is None else domain
            if name not in self._names and len(self._names) >= MAX_DOMAINS:
                name = UNKNOWN
            self._names.add(name)
            # Last used, last.
            of_version = self._apart[version] = self._apart.pop(version, {})
            _add(of_version.setdefault(name, Served()), more)
            if len(self._apart) > MAX_VERSIONS:
                del self._apart[next(iter(self._apart))]

    def by_version(self) -> dict[tuple[str, int | None], Served]:
        """Copies of the sums by domain and map version, for the last ``MAX_VERSIONS`` versions."""
        with self._lock:
            return {
                (domain, version): replace(served)
                for version, domains in self._apart.items()
                for domain, served in domains.items()
            }

    def of_version(self, version: int | None) -> dict[str, DomainCounters]:
        """The sums of one map version by domain, as a report carries them."""
        with self._lock:
            found = self._apart.get(version, {})
            return {domain: DomainCounters(**asdict(served)) for domain, served in found.items()}


def _add(to: Served, more: Served) -> None:
    for name, value in asdict(more).items():
        setattr(to, name, getattr(to, name) + value)
