"""A model beside a config that is not its own is refused before the first image."""

import pathlib

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from estimator_lib.export import artifacts
from model_fns import build_task
from protos import pipeline_pb2

CONFIGS = pathlib.Path(__file__).parents[2] / 'configs'
CLASSIFIER = 'signs_mobilenet_v1'
SEGMENTATION = 'nuclei_deeplab_mobilenet_v2'
SSD = 'bccd_ssd'
MASKS = 'demo_mask_rcnn'
ROTATED = 'demo_rotated'

BOXES = {
    'detection_boxes': [100, 4],
    'detection_scores': [100],
    'detection_classes': [100],
    'num_detections': [],
    'raw_detection_boxes': None,
}
PIXELS = {'SemanticPredictions': [None, None], 'SemanticProbabilities': [None, None, None]}


def scores(count):
    return {'classes': [], 'logits': [count], 'probabilities': [count]}


def task_of(name, num_classes):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse((CONFIGS / f'{name}.config').read_text(), config)
    for reader in (config.train_input_reader, *config.eval_input_reader):
        reader.ClearField('label_map_path')
    model = getattr(config.model, config.model.WhichOneof('model'))
    model.num_classes = num_classes
    return build_task(config)


def check(folder, outputs, num_labels, name, num_classes):
    """Compare as the front door does with a SavedModel."""
    assets = folder / artifacts.ASSETS
    assets.mkdir()
    (assets / 'export.json').write_text('{"format": "saved_model"}')
    (assets / 'labels.txt').write_text(''.join(f'{index}\n' for index in range(num_labels)))
    task = task_of(name, num_classes)
    artifacts.check_outputs(str(folder), task.presentation.described_outputs, outputs)
    artifacts.check_classes(str(folder), task.presentation.class_names)


# Outputs and number of labels of the model; config and number of classes.
PAIRS = {
    'classifier of 8 with 3': (scores(8), 8, CLASSIFIER, 3, 'shape [8], and that of the config'),
    'classifier of 3 with 8': (scores(3), 3, CLASSIFIER, 8, 'shape [3], and that of the config'),
    'segmentation of 9 with 4': (PIXELS, 9, SEGMENTATION, 4, 'has 9 classes'),
    'segmentation of 4 with 9': (PIXELS, 4, SEGMENTATION, 9, 'has 4 classes'),
    'detector with segmentation': (BOXES, 2, SEGMENTATION, 2, "no output 'SemanticPredictions'"),
    'segmentation with detector': (PIXELS, 3, SSD, 3, "no output 'detection_boxes'"),
    'detector with classifier': (BOXES, 8, CLASSIFIER, 8, "no output 'probabilities'"),
    'classifier with detector': (scores(3), 3, SSD, 3, "no output 'detection_boxes'"),
    'detector of 3 with 5': (BOXES, 3, SSD, 5, 'has 3 classes'),
    'axis-aligned with rotated': (BOXES, 2, ROTATED, 2, 'shape [100, 4], and that of the config'),
    'boxes with masks': (BOXES, 2, MASKS, 2, "no output 'detection_masks'"),
}


@pytest.mark.parametrize('pair', sorted(PAIRS))
def test_a_model_beside_a_config_that_is_not_its_own(tmp_path, pair):
    *compared, said = PAIRS[pair]
    with pytest.raises(errors.UserError) as error:
        check(tmp_path, *compared)
    assert said in str(error.value)
    assert 'xpected the pipeline.config that was exported with it' in str(error.value)


@pytest.mark.parametrize(
    'own',
    [
        (scores(8), 8, CLASSIFIER, 8),
        (PIXELS, 4, SEGMENTATION, 4),
        ({'SemanticPredictions': None}, 4, SEGMENTATION, 4),
        (BOXES, 3, SSD, 3),
        ({**BOXES, 'detection_boxes': [None, 5]}, 2, ROTATED, 2),
        ({**BOXES, 'detection_masks': [100, 33, 33]}, 2, MASKS, 2),
    ],
)
def test_a_model_beside_its_own_config(tmp_path, own):
    check(tmp_path, *own)
