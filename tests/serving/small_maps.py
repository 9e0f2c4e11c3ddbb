"""A valid map document with given skip sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from skipmap.maps.schema import MapDocument, read_map


def small_map(domains: Mapping[str, Sequence[int]], num_layers: int = 6) -> MapDocument:
    return read_map(small_map_bytes(domains, num_layers))


def small_map_bytes(domains: Mapping[str, Sequence[int]], num_layers: int = 6) -> bytes:
    pair = {"dense": 1.5, "sparse": 1.5}
    document = {
        "schema": "skipmap.map/1",
        "name": "small",
        "version": 1,
        "created_at": "2026-01-01T00:00:00Z",
        "target": {"id": "small", "fingerprint": "0" * 64, "num_layers": num_layers},
        "draft": {"method": "prompt_lookup"},
        "fallback": {"skip": []},
        "domains": {
            name: {
                "skip": list(skip),
                "sparsity": len(skip) / num_layers,
                "accept_length": pair,
                "metric": {"name": "rouge2", **pair},
                "cost_ratio": None,
                "speedup": None,
                "held_out": None,
                "reason": "chosen for a test",
                "result": "sha256:" + "1" * 64,
            }
            for name, skip in domains.items()
        },
    }
    return json.dumps(document).encode()
