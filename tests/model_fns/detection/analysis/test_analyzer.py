"""The analyzer of detectors: by hand, beside slow versions, and beside pycocotools."""

import itertools

import numpy as np
import pytest

from estimator_lib.analysis.parts import ExampleError, Figure
from model_fns.detection import fields
from model_fns.detection.analysis.analyzer import DetectionAnalyzer
from model_fns.detection.metrics.coco import CocoEvaluator
from tests.model_fns.detection.analysis import slow_analysis
from tests.model_fns.detection.analysis.analyzed import arrays
from tests.model_fns.detection.analysis.test_error_types import random_scene

NAMES = {1: 'cat', 2: 'dog', 3: 'eel'}


def analyze(images, names=NAMES, least_score=0.5):
    """Return the analyzer, the results of `add`, and the parts of the report by name."""
    made = DetectionAnalyzer(
        CocoEvaluator(names), lambda metrics: least_score, lambda labels: labels
    )
    added = [made.add(image) for image in images]
    sections = made.finish({})
    parts = {part.name: part for section in sections for part in section.parts}
    return made, added, parts


def column(table, name):
    index = list(table.columns).index(name)
    return [row[index] for row in table.rows]


CAT, DOG = [0, 0, 50, 50], [100, 100, 150, 150]
IMAGE = arrays(
    [(CAT, 1), (DOG, 2)],
    [
        (CAT, 1, 0.875),
        (CAT, 2, 0.75),
        ([0, 0, 50, 20], 1, 0.625),
        ([150, 300, 190, 390], 3, 0.5),
        (DOG, 2, 0.25),
    ],
    b'one',
)


def test_the_errors_of_an_image_by_hand():
    made, [finding], parts = analyze([IMAGE])
    assert made.late_errors(0) == [
        ExampleError('classification', 'dog', 0.75, 1.0, 'cat'),
        ExampleError('localization', 'cat', 0.625, pytest.approx(0.4), ''),
        ExampleError('background', 'eel', 0.5, 0.0, ''),
        ExampleError('missed', 'dog', None, None, ''),
    ]
    false, missing = 0.75**2 + 0.625**2 + 0.5**2, (1 - 0.875) ** 2 + (1 - 0.25) ** 2
    assert finding.badness == pytest.approx(false + missing)
    numbers = dict(
        zip(column(parts['error_types'], 'error'), column(parts['error_types'], 'number'))
    )
    assert numbers == {
        'classification': 1,
        'localization': 1,
        'both': 0,
        'duplicate': 0,
        'background': 1,
        'missed': 1,
    }
    table = parts['classes']
    assert column(table, 'class') == ['cat', 'dog', 'eel']
    assert column(table, 'objects') == [1, 1, 0]
    assert column(table, 'precision') == [0.5, 0.0, 0.0]
    assert column(table, 'recall') == [1.0, 0.0, None]
    assert column(table, 'F1') == [pytest.approx(2 / 3), 0.0, None]
    assert column(table, 'best threshold') == [0.875, 0.25, None]
    assert column(table, 'AP50') == [1.0, pytest.approx(0.5), None]


def test_an_image_counts_once():
    made, added, parts = analyze([IMAGE, IMAGE, arrays([(CAT, 1)], [], b'two')])
    assert [finding.badness > 0 for finding in added] == [True, False, True]
    assert made.late_errors(1) == ()
    assert made.late_errors(2) == [ExampleError('missed', 'cat')]
    assert column(parts['classes'], 'objects') == [2, 1, 0]


def test_images_without_names_are_different_images():
    _, _, parts = analyze([arrays([(CAT, 1)], [])] * 2)
    assert column(parts['classes'], 'objects') == [2, 0, 0]


def test_no_images_have_no_report():
    made = DetectionAnalyzer(CocoEvaluator(NAMES), lambda metrics: 0.5, lambda labels: labels)
    assert made.finish({}) == []


def test_random_scenes_as_the_slow_version():
    rng, least_score = np.random.RandomState(0), 0.6
    images = [random_scene(rng, len(NAMES)) for _ in range(25)]
    made, _, parts = analyze([arrays(*image) for image in images], least_score=least_score)
    table = parts['classes']
    rates = [slow_analysis.rates(images, class_id, least_score) for class_id in NAMES]
    for index, name in enumerate(('precision', 'recall', 'F1')):
        expected = [each[index] for each in rates]
        assert column(table, name) == [pytest.approx(each, nan_ok=True) for each in expected]
    gains = slow_analysis.gains(images, len(NAMES))
    kinds = column(parts['error_types'], 'error')
    assert dict(zip(kinds, column(parts['error_types'], 'gain in AP50'))) == pytest.approx(
        {name: 100 * gain for name, gain in gains.items()}
    )
    numbers = dict.fromkeys(kinds, 0)
    for number, (objects, found) in enumerate(images):
        shown = [each for each in found if each[2] >= least_score]
        false, missed = slow_analysis.errors(objects, shown)
        said = [error.kind for error in made.late_errors(number)]
        expected = [kind for kind, _ in false.values()] + ['missed'] * len(missed)
        assert sorted(said) == sorted(expected)
        for kind in expected:
            numbers[kind] += 1
    assert dict(zip(kinds, column(parts['error_types'], 'number'))) == numbers
    confusion = slow_analysis.confusion(images, len(NAMES), least_score)
    names = [*NAMES.values(), 'background']
    listed = {(row[0], row[1]): row[2] for row in parts['confusions'].rows}
    expected = {
        (names[row], names[other]): confusion[row][other]
        for row, other in itertools.permutations(range(4), 2)
        if confusion[row][other]
    }
    assert listed == expected


def test_the_figures_can_be_drawn():
    pytest.importorskip('matplotlib')
    from matplotlib.figure import Figure as Canvas

    _, _, parts = analyze([IMAGE])
    drawn = [part for part in parts.values() if isinstance(part, Figure)]
    assert {part.name for part in drawn} == {
        'error_types_gain',
        'confusion_matrix',
        'confusion_matrix_normalized',
        'precision_recall',
        'f1_score',
    }
    for part in drawn:
        canvas = Canvas()
        part.draw(canvas)
        assert canvas.axes
    curve = Canvas()
    parts['precision_recall'].draw(curve)
    labels = [line.get_label() for line in curve.axes[0].lines]
    assert labels == ['all classes', 'cat', 'dog']


def test_rotated_boxes():
    """Boxes of 40 x 20 pixels turned by a right angle are those of 20 x 40."""
    size = (200, 200)

    def numbers(height, width, angle):
        return [0.5, 0.5, height / 200, width / 200, angle]

    image = arrays([(CAT, 1)], [(CAT, 1, 0.9), (CAT, 1, 0.8)], size=size, room=0)
    # Detections have center, sides and angle, the groundtruth has corners.
    corners = np.array([[90, 80], [90, 120], [110, 120], [110, 80]]) / 200
    image[fields.BOXES] = corners.reshape(1, 8).astype(np.float32)
    image[fields.DETECTION_BOXES] = np.array(
        [numbers(40, 20, np.pi / 2), numbers(40, 20, 0.0)], np.float32
    )
    made, _, parts = analyze([image], {1: 'ship'})
    # Crossed at a right angle: 20 x 20 of 1600 - 400 pixels.
    assert made.late_errors(0) == [
        ExampleError('localization', 'ship', pytest.approx(0.8), pytest.approx(1 / 3, rel=1e-5), '')
    ]
    assert column(parts['classes'], 'AP small') == [1.0]
