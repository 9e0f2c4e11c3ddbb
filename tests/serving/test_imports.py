from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("flask", "celery", "sqlalchemy", "datasets", "torch", "transformers", "starlette", "kombu")

_OF_THE_SERVICE = (
    *(
        "flask",
        "celery",
        "sqlalchemy",
        "psycopg",
        "alembic",
        "kombu",
        "redis",
        "gunicorn",
        "gevent",
        "structlog",
    ),
    *("limits", "datasets", "starlette", "uvicorn", "prometheus_client", "openai", "sentence_transformers"),
)


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


@pytest.mark.thorough
def test_all_that_is_named_is_there():
    code = "from skipmap.serving import DomainRouter, MapClient, SkipController"
    assert not set(_loaded(code)) & {"flask", "celery", "sqlalchemy", "datasets", "kombu", "starlette"}


@pytest.mark.thorough
def test_no_module_of_the_library_needs_what_only_the_service_needs():
    """Every module but the node's and the data set loader's is imported while those packages cannot be."""
    code = (
        "import importlib, pkgutil, sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {_OF_THE_SERVICE!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import skipmap\n"
        "names = [m.name for m in pkgutil.walk_packages(skipmap.__path__, 'skipmap.')]\n"
        "names = [name for name in names if not name.startswith('skipmap.serving.node.')]\n"
        "assert len(names) > 150, len(names)\n"
        "for name in names:\n"
        "    importlib.import_module(name)\n"
    )
    assert not set(_loaded(code)) & set(_OF_THE_SERVICE)
