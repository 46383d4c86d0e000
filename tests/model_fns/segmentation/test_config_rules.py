"""What is said of segmentation configs before anything is made of them."""

import pytest

from estimator_lib import config as config_lib
from estimator_lib import errors
from model_fns import validate


@pytest.mark.parametrize(
    ('model', 'start'),
    [
        ('num_classes: 3', 'backbone.name: not set; expected the name of a network, like'),
        ("num_classes: 3 backbone { name: 'xception_5' }", 'backbone.name: unknown segmentation'),
        ("dataset: 'citys' backbone { name: 'xception_65' }", 'dataset: unknown segmentation data'),
        ("backbone { name: 'xception_65' }", ': neither num_classes nor dataset is set'),
        (
            "num_classes: 3 backbone { name: 'xception_65' } offset {} instance_grouping {}",
            'instance_grouping: instances are found with an instance_center and an offset head',
        ),
        (
            "num_classes: 3 backbone { name: 'xception_65' } edge { tolerance: 2 }",
            'edge.tolerance: 2; expected at least 0 and at most 1.',
        ),
    ],
)
def test_problems(model, start):
    config = config_lib.parse_pipeline_config(f'model {{ segmentation {{ {model} }} }}', 'text')
    with pytest.raises(errors.ConfigError) as caught:
        validate(config, 'export')
    expected = 'model.segmentation' + ('' if start.startswith(':') else '.') + start
    assert str(caught.value).startswith(expected)
