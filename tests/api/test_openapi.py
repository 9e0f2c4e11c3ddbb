from __future__ import annotations

import base64
import hashlib
import itertools
import re
import subprocess
import sys

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.specs.openapi.checks import positive_data_acceptance

from api.openapi import FILE, document, text


def test_the_committed_document_is_current():
    assert FILE.read_text(encoding="utf-8") == text(), "run: python -m api.openapi"


def test_the_document_is_valid():
    OpenAPIV31SpecValidator(document()).validate()


def test_the_document_is_served(app):
    answer = app.test_client().get("/api/v1/openapi.json")
    assert answer.get_json() == document()


def test_the_page_needs_nothing_from_elsewhere(app):
    answer = app.test_client().get("/api/v1/docs")
    for operations in document()["paths"].values():
        for operation in operations.values():
            assert f'id="{operation["operationId"]}"' in answer.text
    style = re.search(r"<style>(.*?)</style>", answer.text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<script|<link|<img|\bstyle=|\bon\w+=", answer.text)


def test_the_process_does_without_torch():
    loads = "import sys, api.app, api.warm; api.warm.warm_up(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", loads], check=True, timeout=120)


def _operations() -> list[tuple[str, str]]:
    return [
        (path, method)
        for path, operations in document()["paths"].items()
        for method in operations
        # Streams have no end, and are tested by themselves.
        if not path.endswith("/events")
    ]


@pytest.mark.parametrize(("path", "method"), _operations(), ids=lambda value: value)
def test_answers_are_those_that_are_documented(app, admin, make_spec, shop, path, method):
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    operation = schema[path][method]
    # The client of these tests unpacks nothing.
    headers = {"Authorization": f"Bearer {admin.secret}", "Accept-Encoding": "identity"}
    shop.publish()
    shop.move(1)
    existing = {
        "map_name": "main",
        "channel": "production",
        "version": "1",
        "job_id": admin.post("/jobs", json=make_spec()).get_json()["id"],
        "user_id": admin.post("/users", json={"name": "somebody else"}).get_json()["id"],
        "set_id": admin.upload(b'{"id": 1, "prompt": "Hm."}').get_json()["id"],
    }
    turns = itertools.cycle((True, False))

    @given(case=operation.as_strategy())
    @hypothesis_settings(
        max_examples=16,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    def check(case):
        if next(turns):
            known = {name: value for name, value in existing.items() if name in (case.path_parameters or {})}
            case.path_parameters = {**(case.path_parameters or {}), **known}
        # What a cursor is, or which names exist, is nothing that a schema can tell.
        case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

    check()
