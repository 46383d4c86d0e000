"""Suggestions by hand-made metrics of detectors."""

import pytest

from model_fns.detection.analysis import advice

MEAN, SIZE = 'DetectionBoxes_Precision/mAP', 'DetectionBoxes_Precision/mAP ({})'


def of_sizes(small, medium, large, mean=0.4):
    sizes = {'small': small, 'medium': medium, 'large': large}
    return {MEAN: mean, **{SIZE.format(name): value for name, value in sizes.items()}}


@pytest.mark.parametrize(
    ('metrics', 'begins'),
    [
        (of_sizes(0.1, 0.3, 0.4), 'a larger image_resizer, or --tile: small objects are missed'),
        (of_sizes(0.25, 0.3, 0.4), None),  # more than half
        (of_sizes(-1, 0.3, 0.4), None),  # there are no small objects
        (of_sizes(0.2, -1, -1), None),  # there are no others
        (of_sizes(0.01, 0.05, 0.08, 0.05), None),  # none are found yet
        (of_sizes(0, 0.002, 0.003, 0.002), 'labels and length first'),
        ({'PascalBoxes_Precision/mAP@0.5IOU': 0.5}, None),
        ({}, None),
    ],
)
def test_sizes(metrics, begins):
    found = advice.advise(metrics)
    assert len(found) == (begins is not None)
    assert begins is None or found[0].startswith(begins)


def test_classes_of_any_metric():
    for start in (
        'DetectionBoxes_PerformanceByCategory/mAP',
        'PascalBoxes_PerformanceByCategory/AP@0.5IOU',
    ):
        metrics = {
            f'{start}/a/b': 0.9,
            f'{start}/dog': 0.8,
            f'{start}/fox': 0.1,
            f'{start}/x': -1.0,
        }
        assert advice.advise(metrics) == [
            'more images of class fox (0.10): the mean of the classes is 0.60'
        ]
