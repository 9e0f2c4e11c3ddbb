from __future__ import annotations

import subprocess
import sys

_HEAVY = ("flask", "celery", "sqlalchemy", "datasets", "torch", "transformers", "starlette", "kombu")


def _loaded(code: str) -> list[str]:
    check = f"{code}\nimport sys\nprint(*(name for name in {_HEAVY!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_map_client_loads_neither_a_service_nor_a_model():
    code = "import skipmap.serving\nfrom skipmap.serving import MapClient\nimport skipmap.serving.pulling"
    assert _loaded(code) == []


def test_the_package_alone_loads_nothing_and_names_what_it_has():
    code = (
        "import sys, skipmap.serving as serving\n"
        "assert 'skipmap.serving.map_client' not in sys.modules\n"
        "assert {'MapClient', 'SkipController', 'DomainRouter'} <= set(dir(serving))\n"
        "assert not hasattr(serving, 'Nothing')"
    )
    assert _loaded(code) == []


def test_all_that_is_named_is_there():
    code = "from skipmap.serving import DomainRouter, MapClient, SkipController"
    assert not set(_loaded(code)) & {"flask", "celery", "sqlalchemy", "datasets", "kombu", "starlette"}
