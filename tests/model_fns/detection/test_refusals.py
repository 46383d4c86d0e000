"""What `build_task` says of configs that nobody has validated: `create_model_fn` takes them too."""

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from model_fns import build_task
from model_fns.detection.data import inputs
from model_fns.detection.data.keypoints import KeypointDecoder
from protos import input_reader_pb2, pipeline_pb2
from tests import tiny_detection


def build(text=''):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    text_format.Parse(tiny_detection.MODEL.format(hyperparams=tiny_detection.HYPERPARAMS), config)
    text_format.Merge(text, config)
    return config


@pytest.mark.parametrize(
    ('text', 'path'),
    [
        (
            'eval_input_reader {} eval_input_reader { load_dense_pose: true }',
            'eval_input_reader.1.load_dense_pose',
        ),
    ],
)
def test_what_is_not_available_is_refused_by_name(text, path):
    with pytest.raises(errors.ConfigError) as caught:
        build_task(build(text))
    assert str(caught.value).startswith(f'{path}: not supported: ')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        (
            'metrics_set: "pascal_voc_instance_segmentation_metrics"',
            'eval_config.metrics_set: pascal_voc_instance_segmentation_metrics is about masks, and',
        ),
        (
            'parameterized_metric {}',
            'eval_config.parameterized_metric.0.coco_keypoint_metrics.class_label: no class is',
        ),
    ],
)
def test_what_the_model_does_not_predict_is_not_measured(text, message):
    with pytest.raises(errors.ConfigError) as caught:
        build_task(build(f'eval_config {{ {text} }}'))
    assert str(caught.value).startswith(message)


def test_an_evaluation_without_a_training_reader_reads_as_its_own_says():
    text = 'num_keypoints: 3 max_number_of_boxes: 7 load_instance_masks: true'
    reader = inputs.build_reader(build(f'eval_input_reader {{ {text} }}'), 2, None)
    assert (reader.keypoints, reader.max_boxes) == (KeypointDecoder(3), 7)
    assert reader.mask_type == input_reader_pb2.NUMERICAL_MASKS
    reader = inputs.build_reader(
        build(f'train_input_reader {{}} eval_input_reader {{ {text} }}'), 2, None
    )
    assert (reader.keypoints, reader.max_train_boxes, reader.max_boxes) == (None, 100, 7)
