"""Files of calibration sets: one is up to many megabytes, and a reader turns its pages one after the other."""

from __future__ import annotations

from api.service import Service
from models.calibration_sets import SetFile, set_file
from web.views.kept import Kept

_KEPT_BYTES = 64 << 20

# The bytes of a set never change, and ids are not used twice.
_kept: Kept[str, SetFile] = Kept(_KEPT_BYTES, lambda file: len(file.content))


def file_of(service: Service, set_id: str) -> SetFile:
    """The file of a set that is known to be there; raises NotFound."""
    file = _kept.get(set_id, lambda: service.database.read(set_file, set_id))
    assert file is not None
    return file
