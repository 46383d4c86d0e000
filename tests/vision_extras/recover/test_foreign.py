"""Files of other programs, in `../shared/foreign`, whose README has what is right for each."""

import functools
import importlib.util
import pathlib

import pytest

from estimator_lib import errors
from tests import conftest
from tests.vision_extras.recover import recovered

FOLDER = conftest.shared_folder() / 'foreign'
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason='the folder ../shared/foreign (files of other programs) is not here'
)


@pytest.fixture(scope='module')
def recover(tmp_path_factory):
    """Return a function: name of a file -> (model of its config, text of its report)."""

    @functools.cache
    def run(name, path=None):
        folder = str(tmp_path_factory.mktemp('foreign'))
        files, config = recovered.recover(str(path or FOLDER / name), folder)
        return config, pathlib.Path(files.report).read_text(encoding='utf-8')

    return run


@pytest.mark.parametrize(
    'name, side, classes',
    [
        ('mnv1_025_128_frozen.pb', 128, 1001),
        ('mnv1_025_224_hub.tflite', 224, 1001),
        ('poets_optimized.pb', 128, 6),
        ('poets_retrained.pb', 128, 6),
        ('poets_glasses.tflite', 224, 2),
    ],
)
def test_classifiers(recover, name, side, classes):
    config, report = recover(name)
    model = config.model.classification
    assert (model.backbone.name, model.backbone.depth_multiplier) == ('mobilenet_v1', 0.25)
    assert (model.image_height, model.image_width, model.num_classes) == (side, side, classes)
    assert '* probabilities: ' in report


def test_gray_checkpoint_has_its_moving_averages(recover):
    config, report = recover('tinypose.ckpt')
    model = config.model.classification
    assert (model.num_classes, model.use_grayscale) == (2, True)
    assert model.backbone.depth_multiplier == 0.25
    assert 'moving averages of ' in report


def test_segmentation_network_that_is_cut_before_its_classes(recover):
    config, report = recover('deeplabv3_257.tflite')
    model = config.model.segmentation
    assert (model.num_classes, model.crop_height, model.crop_width) == (21, 257, 257)
    assert (model.backbone.name, model.backbone.output_stride) == ('mobilenet_v2', 8)
    assert '* SemanticProbabilities: ' in report and '* semantic/merged_logits: ' in report


@pytest.mark.parametrize('name, classes', [('voc20.pb', 20), ('pcd.pb', 3)])
def test_boxes_of_single_shot_detectors_are_compared(recover, name, classes):
    config, report = recover(name)
    ssd = config.model.ssd
    assert (ssd.num_classes, ssd.add_background_class) == (classes, True)
    assert ssd.feature_extractor.depth_multiplier == 0.125
    assert ssd.image_resizer.fixed_shape_resizer.height == 256
    assert '* raw_detection_scores: ' in report and '* detection_boxes: ' in report


def freeze(name, folder):
    """Write the frozen graph of a MetaGraph, by the script beside it; return its path."""
    spec = importlib.util.spec_from_file_location('freezing', FOLDER / 'freeze_meta_graph.py')
    freezing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(freezing)
    meta = freezing.meta_graph_pb2.MetaGraphDef()
    with freezing.gzip.open(FOLDER / 'meta_graphs' / f'{name}.meta.gz') as file:
        meta.ParseFromString(file.read())
    path = folder / f'{name}.pb'
    path.write_bytes(freezing.freeze(meta).SerializeToString())
    return path


def test_oldest_single_shot_detector(recover, tmp_path):
    config, report = recover('ssd_oldest', freeze('ssd_oldest', tmp_path))
    ssd = config.model.ssd
    assert ssd.anchor_generator.WhichOneof('anchor_generator_oneof') == 'ssd_anchor_generator'
    assert '* raw_detection_scores: ' in report and '* detection_boxes: ' in report


# Of losses, training and data, and what differs by its default only.
UNTOLD = (
    'regularizer', 'initializer', 'conv_hyperparams', 'fc_hyperparams',
    'first_stage_localization_loss_weight', 'first_stage_objectness_loss_weight',
    'second_stage_localization_loss_weight', 'second_stage_classification_loss_weight',
    'second_stage_batch_size', 'use_dropout', 'dropout_keep_probability',
    'first_stage_box_predictor_conv_hyperparams',
)  # fmt: skip


def test_two_stages_whose_raw_scores_are_logits(recover, tmp_path):
    config, report = recover('faster_rcnn_2019', freeze('faster_rcnn_2019', tmp_path))
    text = (FOLDER / 'meta_graphs' / 'faster_rcnn_2019.config').read_text(encoding='utf-8')
    fields = [
        recovered.flat(recovered.plain(recovered.with_defaults(one.model), without=UNTOLD))
        for one in (config, recovered.parse(text))
    ]
    assert fields[0] == fields[1]
    assert 'are logits' in report and '* detection_boxes: ' in report


@pytest.mark.parametrize(
    'name, message',
    [
        ('mnv1_025_edgetpu.tflite', 'compiled for the Edge TPU; expected the file from before'),
        ('hair.tflite', 'custom operations of another program: Convolution2DTransposeBias'),
        ('person_detect.tflite', 'is quantized, or trained for it'),
    ],
)
def test_other_kinds_are_one_sentence(recover, name, message):
    with pytest.raises(errors.UserError, match=message) as caught:
        recover(name)
    assert '\n' not in str(caught.value)
