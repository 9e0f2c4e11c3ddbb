"""Every page of the dashboard, with data."""

from __future__ import annotations

from tests.web.browser.world import FINISHED, MAP, NODES, UNFINISHED, World

PAGES = {
    "jobs": "/jobs",
    "jobs, filtered": "/jobs?state=succeeded&domain=qa",
    "jobs, none": "/jobs?domain=no-such-domain",
    "new job": "/jobs/new",
    "new job, from another": "/jobs/new?from={jobs[succeeded]}",
    **{f"job, {name}": f"/jobs/{{jobs[{name}]}}" for name in (*FINISHED, *UNFINISHED)},
    "configurations": "/jobs/{jobs[succeeded]}/configurations",
    "configuration": "/jobs/{jobs[succeeded]}/configurations/{selected}",
    "configuration, dense": "/jobs/{jobs[succeeded]}/configurations/dense",
    "cancel a job": "/jobs/{jobs[running]}/cancel",
    "pause a job": "/jobs/{jobs[running]}/pause",
    "resume a job": "/jobs/{jobs[paused]}/resume",
    "retry a job": "/jobs/{jobs[failed]}/retry",
    "delete a job": "/jobs/{jobs[succeeded]}/delete",
    "priority of a job": "/jobs/{jobs[waiting]}/priority",
    "sets": "/calibration-sets",
    "set": "/calibration-sets/{sets[items]}",
    "compare": "/compare?job={jobs[succeeded]}&job={jobs[other draft]}&job={jobs[refused]}",
    "maps": "/maps",
    "map": f"/maps/{MAP}",
    "version": f"/maps/{MAP}/versions/2",
    "diff": f"/maps/{MAP}/diff?from=1&to=3",
    "publish": "/publish?job={jobs[succeeded]}&job={jobs[other]}",
    "publish against the check": "/publish?job={jobs[refused]}",
    "channel": f"/maps/{MAP}/channels/production",
    "move a channel": f"/maps/{MAP}/channels/production/move?version=3",
    "move a channel over the check": f"/maps/{MAP}/channels/production/move?version=2",
    "nodes": "/nodes",
    "nodes of a channel": f"/nodes?map={MAP}&channel=production",
    **{f"node, {name}": f"/nodes/node-{name}" for name in NODES},
    "workers": "/workers",
    "tokens": "/admin/tokens",
    "users": "/admin/users",
    "audit": "/admin/audit",
    "account": "/account",
    "help": "/help",
    "API": "/docs",
    "not found": "/no-such-page",
    "no such job": "/jobs/01900000-0000-7000-8000-000000000000",
}
RARE = {
    *(
        "jobs, filtered",
        "jobs, none",
        "new job, from another",
        "configuration, dense",
        "nodes of a channel",
        "API",
    ),
    *(f"job, {name}" for name in (*FINISHED, *UNFINISHED) if name not in ("succeeded", "failed", "running")),
    *("pause a job", "resume a job", "retry a job", "delete a job", "no such job"),
    *(f"node, {name}" for name in NODES if name != "behind"),
}
"""Other states of pages that are here as well, and one that takes long."""
ABSENT = ("not found", "no such job")
"""Pages that say 404."""


def address(name: str, world: World) -> str:
    """Where a page is in a world."""
    return PAGES[name].format(jobs=world.jobs, sets=world.sets, selected=world.selected)
