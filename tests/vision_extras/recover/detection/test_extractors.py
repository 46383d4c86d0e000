"""Feature extractors by their kernels."""

import json
import pathlib

from vision_extras.recover.detection import extractors

VARIABLES = pathlib.Path(__file__).resolve().parents[5] / 'shared' / 'spec' / 'variables'


def kernels(name):
    """Return the kernels of a published variable list."""
    variables = json.loads((VARIABLES / f'{name}.json').read_text())['variables']
    return {
        variable: tuple(shape)
        for variable, shape, _ in variables
        if variable.endswith('weights') and variable.startswith('FeatureExtractor/')
    }


def test_published_network_with_a_factor():
    shapes = kernels('ssd_mobilenet_v1_0.75_depth_300x300_coco14_sync')
    match = extractors.recognize(shapes, 6)[0]
    assert match.differences == []
    assert match.settings['type'] == 'ssd_mobilenet_v1'
    assert match.settings['depth_multiplier'] == 0.75


def test_other_kernels_are_listed_as_differences():
    shapes = kernels('ssd_mobilenet_v1_coco')
    shapes['FeatureExtractor/MobilenetV1/Conv2d_0/weights'] = (5, 5, 3, 32)
    match = extractors.recognize(shapes, 6)[0]
    assert match.differences == [
        'FeatureExtractor/MobilenetV1/Conv2d_0/weights is [5, 5, 3, 32]; expected [3, 3, 3, 32]'
    ]


def test_kernels_without_a_scope_of_detectors():
    assert extractors.recognize({'MobilenetV1/Conv2d_0/weights': (3, 3, 3, 32)}, 6) == []
