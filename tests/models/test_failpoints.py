import pytest

from models.failpoints import arm, disarm, reach


def test_only_an_armed_failpoint_acts():
    def stop():
        raise RuntimeError("stopped")

    reach("somewhere")
    arm("somewhere", stop)
    with pytest.raises(RuntimeError, match="stopped"):
        reach("somewhere")
    reach("elsewhere")
    disarm("somewhere")
    reach("somewhere")
