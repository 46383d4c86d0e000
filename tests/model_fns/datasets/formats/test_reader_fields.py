"""Formats of the readers: every reader of files has one."""

import model_fns
from estimator_lib.data import file_examples
from model_fns.datasets.formats import reader_fields
from protos import reader_paths


def test_every_reader_of_files_has_a_format():
    assert set(reader_fields.FORMATS) == set(reader_paths.FILE_KINDS)
    assert all(kind in file_examples.OPENERS for kind in reader_paths.FILE_KINDS)
    assert model_fns.build_task  # it fills the registry
