"""Pictures of records for comparisons of exported detectors."""

import pytest

from benchmarks.accuracy import rotated_accuracy


def test_records_that_are_not_there_are_named(tmp_path):
    with pytest.raises(SystemExit, match=r"no record is in files of the pattern '.*/val-\*'"):
        rotated_accuracy.read(str(tmp_path / 'val-*'))
