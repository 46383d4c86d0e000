"""Average precision of samples of images, beside evaluations of repeated images."""

import numpy as np
import pytest

from model_fns.detection.analysis import resampling
from model_fns.detection.analysis.analyzer import DetectionAnalyzer
from model_fns.detection.metrics import image_arrays
from model_fns.detection.metrics.coco import CocoEvaluator
from tests.model_fns.detection.analysis.analyzed import arrays
from tests.model_fns.detection.analysis.test_analyzer import IMAGE, NAMES
from tests.model_fns.detection.metrics.pycoco import reference

PREFIX = 'DetectionBoxes_'
COMPARED = [PREFIX + f'Precision/mAP{end}' for end in ('', '@.50IOU', '@.75IOU')]


def random_images(count):
    """Images of shifted detections, with scores of their own so that no two are equal."""
    random = np.random.default_rng(3)
    for index in range(count):
        objects = [
            ([*corner, *(corner + random.integers(20, 60, 2))], int(random.integers(1, 4)))
            for corner in random.integers(0, 150, [random.integers(1, 5), 2])
        ]
        found = [
            (np.add(box, random.integers(-6, 7, 4)), class_id, random.uniform())
            for box, class_id in objects
            for _ in range(random.integers(0, 3))
        ]
        found.append(([0, 0, 30, 30], int(random.integers(1, 4)), random.uniform()))
        yield arrays(objects, found, f'image_{index}'.encode())


def created(images):
    """The resampler of an analysis of images."""
    evaluator = CocoEvaluator(NAMES, per_category=True)
    analyzer = DetectionAnalyzer(evaluator, lambda metrics: 0.5, lambda labels: labels)
    for image in images:
        analyzer.add(image)
    return resampling.create_resampler(analyzer.examples(), evaluator)


def repeated(images, weights):
    """Groundtruth and detections of each copy of the images."""
    return [
        (image_arrays.groundtruth(image), image_arrays.detections(image))
        for image, weight in zip(images, weights)
        for _ in range(weight)
    ]


@pytest.mark.parametrize('weights', [[1] * 8, [0, 3, 1, 0, 2, 1, 1, 0], [8] + [0] * 7])
def test_weights_are_numbers_of_copies(weights):
    images = list(random_images(8))
    metrics = created(images)(np.array(weights))
    copies = repeated(images, weights)
    expected = reference(copies, NAMES).stats[:3]
    assert [metrics[name] for name in COMPARED] == pytest.approx(expected, abs=1e-6)
    evaluator = CocoEvaluator(NAMES, per_category=True)
    for number, (groundtruth, detections) in enumerate(copies):
        evaluator.add_image(str(number), groundtruth, detections)
    of_all = evaluator.evaluate()
    of_classes = {name: value for name, value in of_all.items() if 'Category' in name}
    assert metrics == pytest.approx({**{name: of_all[name] for name in COMPARED}, **of_classes})


def test_an_image_by_hand():
    resampler = created([IMAGE])
    metrics = resampler(np.array([2]))
    # At 0.5 cats have precision 1 at recall 1; the dog comes after a false positive.
    assert metrics[PREFIX + 'Precision/mAP@.50IOU'] == pytest.approx((1.0 + 0.5) / 2)
    assert resampler(np.array([0])) == {}


def test_an_image_counts_once_in_the_order_of_the_examples():
    other = next(random_images(1))
    metrics = created([IMAGE, IMAGE, other])(np.array([0, 5, 1]))
    assert metrics == pytest.approx(created([other])(np.array([1])))
