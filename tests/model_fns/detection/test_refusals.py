"""What `build_task` says of configs that nobody has validated: `create_model_fn` takes them too."""

import pytest
from google.protobuf import text_format

from estimator_lib import errors
from model_fns import build_task
from model_fns.detection.data import inputs
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
        ('train_config { use_multiclass_scores: true }', 'train_config.use_multiclass_scores'),
        ('eval_config { eval_instance_masks: true }', 'eval_config.eval_instance_masks'),
        ('eval_config { parameterized_metric {} }', 'eval_config.parameterized_metric'),
        ('train_input_reader { load_track_id: true }', 'train_input_reader.load_track_id'),
        (
            'train_input_reader { input_type: TF_SEQUENCE_EXAMPLE }',
            'train_input_reader.input_type',
        ),
        (
            'eval_input_reader {} eval_input_reader { num_additional_channels: 1 }',
            'eval_input_reader.1.num_additional_channels',
        ),
        ('model { ssd { mask_head_config {} } }', 'model.ssd.mask_head_config'),
    ],
)
def test_what_is_not_available_is_refused_by_name(text, path):
    with pytest.raises(errors.ConfigError) as caught:
        build_task(build(text))
    assert str(caught.value).startswith(f'{path}: not supported: ')


def test_an_evaluation_without_a_training_reader_reads_as_its_own_says():
    text = 'num_keypoints: 3 max_number_of_boxes: 7 load_instance_masks: true'
    reader = inputs.build_reader(build(f'eval_input_reader {{ {text} }}'), 2, None)
    assert (reader.num_keypoints, reader.max_boxes) == (3, 7)
    assert reader.mask_type == input_reader_pb2.NUMERICAL_MASKS
    reader = inputs.build_reader(
        build(f'train_input_reader {{}} eval_input_reader {{ {text} }}'), 2, None
    )
    assert (reader.num_keypoints, reader.max_train_boxes, reader.max_boxes) == (0, 100, 7)
