"""Analysis of classifiers of several labels: each number against loops over the images."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.analysis.parts import Table
from estimator_lib.task import IMAGE, SOURCE_ID
from model_fns.classification import inputs
from model_fns.classification.analysis import label_analyzer as label_analysis
from model_fns.classification.deployable import CLASSES, PROBABILITIES

NAMES = ['cat', 'dog', 'cow', 'hen']
NUM_IMAGES = 50


def create_analyzer(names=None):
    return label_analysis.MultiLabelAnalyzer(names or NAMES, lambda image: 10.0 * image)


def add(analyzer, probabilities, labels, name='photo'):
    arrays = {
        PROBABILITIES: np.asarray(probabilities, np.float32),
        inputs.LABEL: np.asarray(labels, np.float32),
        'name': name.encode(),
    }
    return analyzer.add(arrays)


@pytest.fixture(scope='module')
def images():
    """Probabilities and labels; no image is a hen, and some are said to be one."""
    random = np.random.RandomState(0)
    labels = random.randint(0, 2, [NUM_IMAGES, 4])
    labels[:, 3] = 0
    noise = random.normal(size=labels.shape) + 1.5 * (labels - 0.5)
    return (1 / (1 + np.exp(-noise))).astype(np.float32), labels


@pytest.fixture(scope='module')
def results(images):
    """What the analysis of the images finds, and its sections."""
    analyzer = create_analyzer()
    found = [add(analyzer, *pair, f'{number}.jpg') for number, pair in enumerate(zip(*images))]
    return found, analyzer.finish({'AP_class_0': 0.75, 'AP_class_1': 0.25, 'mAP': 0.5})


def table(sections, name):
    parts = [part for section in sections for part in section.parts]
    return next(part for part in parts if isinstance(part, Table) and part.name == name)


def ratio(part, whole):
    return part / whole if whole else math.nan


def test_scores_of_classes_equal_loops(images, results):
    probabilities, labels = images
    rows = table(results[1], 'classes').rows
    for index, name in enumerate(NAMES):
        labeled = {n for n in range(NUM_IMAGES) if labels[n, index]}
        predicted = {n for n in range(NUM_IMAGES) if probabilities[n, index] >= 0.5}
        right = len(labeled & predicted)
        pairs = [
            float(probabilities[n, index] > probabilities[other, index])
            for n in labeled
            for other in range(NUM_IMAGES)
            if other not in labeled
        ]
        expected = [
            len(labeled),
            len(predicted),
            right,
            ratio(right, len(predicted)),
            ratio(right, len(labeled)),
            ratio(2 * right, len(predicted) + len(labeled)),
            {'cat': 0.75, 'dog': 0.25}.get(name, math.nan),
            ratio(sum(pairs), len(pairs)),
        ]
        assert rows[index][0] == name
        cells = [math.nan if cell is None else cell for cell in rows[index][1:]]
        assert cells == pytest.approx(expected, rel=1e-6, nan_ok=True), name
    assert rows[3][2] > 0 and rows[3][5] is None and rows[3][8] is None


def test_tiles(images, results):
    probabilities, labels = images
    predicted = probabilities >= 0.5
    exact = sum(list(one) == list(other) for one, other in zip(predicted, labels > 0))
    right = int((predicted & (labels > 0)).sum())
    tiles = {tile.title: tile.value for tile in results[1][0].tiles}
    assert tiles['mean AP'] == '0.500'
    assert tiles['F1 of all labels'] == f'{2 * right / (predicted.sum() + labels.sum()):.3f}'
    assert tiles['all labels right'] == f'{exact / NUM_IMAGES:.1%}' and 0 < exact < NUM_IMAGES


def test_findings_are_the_wrong_labels(images, results):
    for row, labels, finding in zip(*images, results[0]):
        wrong = [index for index in range(4) if (row[index] >= 0.5) != bool(labels[index])]
        distances = [abs(row[index] - labels[index]) for index in wrong]
        assert finding.badness == pytest.approx(sum(distances), abs=1e-5)
        expected = {
            (NAMES[index], 'missed label' if labels[index] else 'wrong label') for index in wrong
        }
        assert {(error.class_name, error.kind) for error in finding.errors} == expected
        found = [abs(error.score - (error.kind == 'missed label')) for error in finding.errors]
        assert found == sorted(found, reverse=True)


def test_the_most_confident_mistakes(images, results):
    mistakes = [
        (abs(row[index] - labels[index]), f'{number}.jpg', NAMES[index], row[index])
        for number, (row, labels) in enumerate(zip(*images))
        for index in range(4)
        if (row[index] >= 0.5) != bool(labels[index])
    ]
    rows = table(results[1], 'confident_mistakes').rows
    assert len(rows) == 32 < len(mistakes)
    for row, (_, name, class_name, probability) in zip(rows, sorted(mistakes, reverse=True)):
        kind = 'wrong label' if probability >= 0.5 else 'missed label'
        assert tuple(row[:3]) == (name, class_name, kind)
        assert row[3] == pytest.approx(probability)


def test_images_without_labels_and_diverged_models():
    analyzer = create_analyzer()
    assert add(analyzer, [0.1] * 4, [0] * 4).badness == 0
    finding = add(analyzer, [math.nan, 0.2, math.inf, 0.9], [1, 0, 0, 1])
    assert [(one.class_name, one.kind) for one in finding.errors] == [('cat', 'missed label')]
    (classes, mistakes) = analyzer.finish({})
    assert classes.tiles[-1].value == '50.0%' and len(mistakes.parts[0].rows) == 1
    assert create_analyzer().finish({}) == []
    many = create_analyzer([str(index) for index in range(150)])
    assert len(add(many, [0.9] * 150, [0] * 150).errors) == 100


def test_what_is_fetched_and_drawn():
    labels = {inputs.LABEL: tf.constant([[1.0, 0.0]])}
    outputs = {
        PROBABILITIES: tf.constant([[0.8, 0.2]]),
        CLASSES: tf.constant([[1, 0]]),
        'logits': tf.zeros([1, 2]),
    }
    features = {IMAGE: tf.constant(25.52, shape=[1, 2, 2, 3]), SOURCE_ID: tf.constant(['a'])}
    fetched = create_analyzer().fetches(features, outputs, labels)
    assert set(fetched) == {PROBABILITIES, inputs.LABEL, 'name'}
    shown, drawn, known = create_analyzer().drawn(features, outputs, labels)
    assert shown[IMAGE].dtype == tf.uint8 and int(shown[IMAGE][0, 0, 0, 0]) == 255
    assert set(drawn) == {CLASSES, PROBABILITIES} and known is labels


def test_classes_that_were_not_looked_for_have_no_part_in_areas():
    analyzer = create_analyzer(['cat', 'dog'])
    add(analyzer, [0.75, 0.5], [1, 0])
    add(analyzer, [0.25, 0.75], [0, 1])
    add(analyzer, [0.875, 0.25], [np.nan, 1])
    rows = table(analyzer.finish({}), 'classes').rows
    # Of the pairs of a dog and another image, one is in the right order, and the other is not.
    assert [row[-1] for row in rows] == pytest.approx([1, 0.5], abs=1e-6)
