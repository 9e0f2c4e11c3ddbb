"""``skipmap report``: one self-contained HTML page."""

from __future__ import annotations

from argparse import Namespace

from skipmap.cli.values import complete, require_writable
from skipmap.errors import InvalidInput
from skipmap.profiling.documents import SCHEMA, read_document
from skipmap.profiling.report import render_report
from skipmap.profiling.store import write_atomically


def run(arguments: Namespace) -> int:
    """Write the page and print its path."""
    documents = []
    for file in arguments.files:
        document = read_document(file)
        if document["schema"] != SCHEMA:
            raise InvalidInput(str(file), f"is a {document['schema']}; a report is made from results")
        documents.append(document)
    out = arguments.out or arguments.files[0].with_name("report.html")
    require_writable(out, "--out", arguments.files)
    with complete(", ".join(map(str, arguments.files))):
        page = render_report(documents)
    write_atomically(out, page)
    print(out)
    return 0
