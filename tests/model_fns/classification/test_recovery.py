"""Round trips of classifiers: artifact -> config and checkpoint."""

import pathlib

import pytest

from tests import recovered

MODEL = """
model {
  classification {
    num_classes: 5
    image_height: 64
    image_width: 96
    preprocessing: "vgg"
    labels_offset: 1
    backbone { name: "mobilenet_v1" depth_multiplier: 0.25 }
  }
}
"""


@pytest.fixture(scope='module')
def round_trip(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('classifier'))
    config, path = recovered.freeze(MODEL, folder)
    return config, *recovered.recover(path, folder)


def test_recovered_config_equals_the_original(round_trip):
    config, _, found = round_trip
    assert recovered.plain(found.model) == recovered.plain(config.model)


def test_comments_mark_what_the_artifact_does_not_tell(round_trip):
    _, files, _ = round_trip
    lines = pathlib.Path(files.config).read_text(encoding='utf-8').splitlines()
    assert any('batch_size' in line and 'published default' in line for line in lines)
    assert not any('num_classes' in line and 'published default' in line for line in lines)


def test_report_has_the_evidence(round_trip):
    _, files, _ = round_trip
    report = pathlib.Path(files.report).read_text(encoding='utf-8')
    assert '`model.classification.image_width` | 96' in report
    assert 'probabilities: ' in report
