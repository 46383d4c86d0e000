"""Round trips of segmentation networks: artifact -> config and checkpoint."""

import pathlib

import pytest

from tests.vision_extras.recover import recovered

MODEL = """
model {
  segmentation {
    num_classes: 4
    crop_height: 97
    crop_width: 129
    backbone { name: "mobilenet_v2" depth_multiplier: 0.35 output_stride: 16 }
    aspp { atrous_rates: [2, 3] num_filters: 24 }
    decoder { output_strides: [8, 4] num_filters: 16 }
  }
}
"""


@pytest.fixture(scope='module')
def round_trip(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp('segmentation'))
    config, path = recovered.freeze(MODEL, folder, is_calm=True)
    return config, *recovered.recover(path, folder)


def test_recovered_config_equals_the_original(round_trip):
    config, files, found = round_trip
    model = found.model.segmentation
    assert list(model.aspp.atrous_rates) == [2, 3]
    assert list(model.decoder.output_strides) == [8, 4]
    for name in ('num_classes', 'crop_height', 'crop_width'):
        assert getattr(model, name) == getattr(config.model.segmentation, name)
    expected = recovered.plain(config.model.segmentation.backbone)
    assert recovered.plain(model.backbone, ['batch_norm_decay']) == expected
    assert (model.aspp.num_filters, model.decoder.num_filters) == (24, 16)
    assert '* semantic/merged_logits: ' in pathlib.Path(files.report).read_text(encoding='utf-8')


def test_tflite_file_tells_what_its_network_is(tmp_path):
    text = MODEL.replace('[8, 4]', '4').replace('97', '33').replace('129', '49')
    config, path = recovered.convert(text, str(tmp_path), is_calm=True)
    files, found = recovered.recover(path, str(tmp_path))
    model, original = found.model.segmentation, config.model.segmentation
    assert (model.crop_height, model.crop_width) == (33, 49)
    assert list(model.aspp.atrous_rates) == [2, 3]
    expected = recovered.plain(original.backbone)
    assert recovered.plain(model.backbone, ['batch_norm_decay']) == expected
    assert '* SemanticProbabilities: ' in pathlib.Path(files.report).read_text(encoding='utf-8')
