"""What timings belong to: they are never carried over to another host, device or number of threads."""

from __future__ import annotations

import platform

import torch


def this_host(device: torch.device) -> dict[str, str | int]:
    """Name, processor or GPU, and threads of this host."""
    return {
        "node": platform.node(),
        "processor": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
