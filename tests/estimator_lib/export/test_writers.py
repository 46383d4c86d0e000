import dataclasses

import pytest

from estimator_lib.export import formats, saved_model, writers
from estimator_lib.export.devices import device_files


def test_what_a_format_must_have():
    for kind in (writers.Writer, device_files.DeviceWriter, device_files.FileModel):
        with pytest.raises(TypeError, match='abstract'):
            kind()


def test_a_writer_cannot_be_changed():
    writer = saved_model.SavedModelWriter(warmup_requests=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        writer.warmup_requests = 4


@pytest.mark.parametrize('name', formats.WRITERS)
def test_options_have_defaults(name):
    assert formats.WRITERS[name]() == formats.create_writer(name)
