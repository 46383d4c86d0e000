"""What is said of segmentation configs before anything is made of them."""

import pytest
from google.protobuf import text_format

from estimator_lib import config as config_lib
from estimator_lib import errors
from estimator_lib.config import validation
from model_fns import validate
from model_fns.segmentation import config_rules
from protos import pipeline_pb2


@pytest.mark.parametrize(
    ('model', 'start'),
    [
        ('num_classes: 3', 'backbone.name: not set; expected the name of a network, like'),
        ("num_classes: 3 backbone { name: 'xception_5' }", 'backbone.name: unknown segmentation'),
        ("dataset: 'citys' backbone { name: 'xception_65' }", 'dataset: unknown segmentation data'),
        ("backbone { name: 'xception_65' }", ': neither num_classes nor dataset is set'),
    ],
)
def test_problems(model, start):
    config = config_lib.parse_pipeline_config(f'model {{ segmentation {{ {model} }} }}', 'text')
    with pytest.raises(errors.ConfigError) as caught:
        validate(config, 'export')
    expected = 'model.segmentation' + ('' if start.startswith(':') else '.') + start
    assert str(caught.value).startswith(expected)


def test_raw_predictions_need_a_folder_where_they_are_written():
    text = """
        model {
            segmentation {
                num_classes: 3 backbone { name: 'xception_65' }
                evaluation { save_raw_predictions: true }
            }
        }
        eval_config {} eval_input_reader { tf_record_input_reader { input_path: 'val' } }
    """
    config = config_lib.parse_pipeline_config(text, 'text')
    for mode in ('export', 'predict', 'train'):
        try:
            validate(config, mode)
        except errors.ConfigError as error:
            assert 'save_raw_predictions' not in str(error)  # others are missing to train
    with pytest.raises(errors.ConfigError, match='visualization_export_dir is not set'):
        validate(config, 'evaluate')
    config.ClearField('eval_config')
    with pytest.raises(errors.ConfigError, match='visualization_export_dir is not set'):
        validate(config, 'evaluate')


@pytest.mark.parametrize(
    'fields, expected',
    [
        ('merge_method: MERGE_AVERAGE', ['merge_method']),
        ('merge_method: MERGE_AVERAGE image_pyramid: [0.5, 1]', []),
        ('predict_with_upsampled_logits: false', []),
        ('predict_with_upsampled_logits: false evaluation { add_flipped_images: true }', []),
        (
            'predict_with_upsampled_logits: false evaluation { scales: 0.5 } '
            'export { add_flipped_images: true }',
            ['predict_with_upsampled_logits'],
        ),
        (
            'dense_prediction_cell { branches { operation: PYRAMID_POOLING rate_width: 2 } '
            'branches { grid_height: 2 } }',
            [
                'dense_prediction_cell.branches.0.rate_width',
                'dense_prediction_cell.branches.1.grid_height',
            ],
        ),
    ],
)
def test_fields_that_need_another_one(fields, expected):
    config = text_format.Parse(
        f'model {{ segmentation {{ num_classes: 3 backbone {{ name: "mobilenet_v2" }} {fields} '
        '} }',
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    warnings = validation.validate(config, None, config_rules.RULES)
    found = [warning.partition(' has no effect without ')[0] for warning in warnings]
    assert found == [f'model.segmentation.{path}' for path in expected]
