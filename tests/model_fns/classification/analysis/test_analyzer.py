"""Analysis of classifiers: each number against loops over the images."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.analysis.parts import Table
from estimator_lib.task import IMAGE, SOURCE_ID
from model_fns.classification import inputs
from model_fns.classification.analysis import analyzer as analysis
from model_fns.classification.deployable import CLASSES, PROBABILITIES

NAMES = ['cat', 'dog', 'cow', 'hen']
NUM_IMAGES = 60


def create_analyzer(names=None):
    return analysis.ClassificationAnalyzer(names or NAMES, 1, lambda image: 10.0 * image)


def example(probabilities, label, name='photo'):
    probabilities = np.asarray(probabilities, np.float32)
    return {
        PROBABILITIES: probabilities,
        'prediction': np.int64(np.argmax(probabilities)),
        inputs.LABEL: np.int64(label),
        'name': name.encode(),
    }


@pytest.fixture(scope='module')
def images():
    """Probabilities and labels; no image is a hen, and some are predicted as one."""
    random = np.random.RandomState(0)
    labels = random.randint(0, 3, [NUM_IMAGES])
    logits = 2 * random.normal(size=[NUM_IMAGES, 4]) + 2 * np.eye(4)[labels]
    exponents = np.exp(logits)
    return (exponents / exponents.sum(1, keepdims=True)).astype(np.float32), labels


@pytest.fixture(scope='module')
def results(images):
    """What the analysis of the images finds, and its sections."""
    analyzer = create_analyzer()
    pairs = enumerate(zip(*images))
    found = [analyzer.add(example(*pair, f'{number}.jpg')) for number, pair in pairs]
    return found, analyzer.finish({})


def tables(sections):
    parts = [part for section in sections for part in section.parts]
    return {part.name: part for part in parts if isinstance(part, Table)}


def same(cells, expected):
    """Whether the cells of a row have these values, where None stands for NaN."""
    numbers = [math.nan if cell is None else cell for cell in cells]
    return numbers == pytest.approx(expected, rel=1e-6, nan_ok=True)


def ratio(part, whole):
    return part / whole if whole else math.nan


def test_scores_of_classes_equal_loops(images, results):
    probabilities, labels = images
    predictions = [int(np.argmax(row)) for row in probabilities]
    rows = tables(results[1])['classes'].rows
    for index, name in enumerate(NAMES):
        labeled = {n for n in range(NUM_IMAGES) if labels[n] == index}
        predicted = {n for n in range(NUM_IMAGES) if predictions[n] == index}
        right = len(labeled & predicted)
        f1 = 2 * right / (len(labeled) + len(predicted))
        pairs = [
            float(probabilities[n, index] > probabilities[other, index])
            for n in labeled
            for other in range(NUM_IMAGES)
            if other not in labeled
        ]
        assert rows[index][0] == name
        scores = [ratio(right, len(predicted)), ratio(right, len(labeled)), f1]
        counts = [len(labeled), len(predicted), right]
        assert same(rows[index][1:7], [*counts, *scores]), name
        # No two of these images share a bin of the histograms.
        assert same(rows[index][7:], [ratio(sum(pairs), len(pairs))]), name
    assert len(rows[3]) == 8 and rows[3][2] > 0 and rows[3][5] is None


def test_tiles(images, results):
    probabilities, labels = images
    right = sum(np.argmax(row) == label for row, label in zip(probabilities, labels))
    tiles = {tile.title: tile.value for tile in results[1][0].tiles}
    assert tiles['accuracy'] == f'{right / NUM_IMAGES:.1%}'
    assert set(tiles) == {'accuracy', 'mean F1', 'mean AUC', 'calibration error (ECE)'}


def test_findings_are_the_mistakes(images, results):
    for row, label, finding in zip(*images, results[0]):
        prediction = np.argmax(row)
        if prediction == label:
            assert finding.badness == 0 and not finding.errors
            continue
        assert finding.badness == pytest.approx(row[prediction], abs=1e-6)
        (error,) = finding.errors
        assert (error.kind, error.class_name, error.note) == (
            'wrong class',
            NAMES[prediction],
            NAMES[label],
        )
        assert error.score == pytest.approx(row[prediction]) and error.overlap is None


def test_the_most_confident_mistakes(images, results):
    mistakes = [
        (row.max(), f'{number}.jpg', NAMES[label], NAMES[np.argmax(row)], row[label])
        for number, (row, label) in enumerate(zip(*images))
        if np.argmax(row) != label
    ]
    expected = sorted(mistakes, reverse=True)[:32]
    rows = tables(results[1])['confident_mistakes'].rows
    assert len(rows) == len(expected) and len(mistakes) > 10
    for row, (confidence, name, label, prediction, probability) in zip(rows, expected):
        assert tuple(row[:3]) == (name, label, prediction)
        assert same(row[3:], [confidence, probability])


def test_only_the_most_confident_mistakes_are_kept():
    analyzer = create_analyzer(['cat', 'dog'])
    confidences = np.random.RandomState(1).permutation(np.linspace(0.55, 0.99, 50))
    for number, confidence in enumerate(confidences):
        analyzer.add(example([confidence, 1 - confidence], 1, str(number)))
    rows = tables(analyzer.finish({}))['confident_mistakes'].rows
    expected = [str(number) for number in np.argsort(-confidences)[:32]]
    assert [row[0] for row in rows] == expected


def test_calibration_equals_loops(images, results):
    bins = [[] for _ in range(15)]
    for row, label in zip(*images):
        number = next(n for n in range(15) if row.max() <= (n + 1) / 15)
        bins[number].append((row.max(), np.argmax(row) == label))
    rows = tables(results[1])['calibration'].rows
    error = 0.0
    for number, (members, row) in enumerate(zip(bins, rows)):
        mean = ratio(sum(confidence for confidence, _ in members), len(members))
        accuracy = ratio(sum(right for _, right in members), len(members))
        assert same(row, [number / 15, (number + 1) / 15, len(members), mean, accuracy])
        error += len(members) / NUM_IMAGES * abs(accuracy - mean) if members else 0.0
    assert f'calibration error is {error:.4f}:' in results[1][-1].text


def test_confusions_are_listed(images, results):
    counts = np.zeros([4, 4], int)
    for row, label in zip(*images):
        counts[label, np.argmax(row)] += 1
    labeled = counts.sum(axis=1)
    for label, prediction, count, fraction in tables(results[1])['confusions'].rows:
        indices = NAMES.index(label), NAMES.index(prediction)
        assert counts[indices] == count and fraction == count / labeled[indices[0]]
        counts[indices] = 0
    assert np.all(counts == np.diag(np.diag(counts)))


def test_all_right_and_no_images():
    analyzer = create_analyzer()
    assert analyzer.finish({}) == []
    analyzer.add(example([0, 1, 0, 0], 1))
    sections = analyzer.finish({})
    assert sections[2].text == 'All images are right.' and not sections[2].parts


def test_a_model_that_diverged():
    analyzer = create_analyzer()
    found = analyzer.add(example(np.full([4], np.nan), 2))
    assert found.badness > 0 and found.errors[0].score == 0.0
    assert tables(analyzer.finish({}))['classes'].rows[2][1:4] == (1, 0, 0)


def test_tensors():
    features = {
        IMAGE: tf.constant([[[[-1.0, 2.56, 99.0]]]]),
        SOURCE_ID: tf.constant(['a.jpg']),
    }
    outputs = {CLASSES: tf.constant([2]), PROBABILITIES: tf.eye(4)[1:2], 'logits': tf.eye(4)[:1]}
    labels = {inputs.LABEL: tf.constant([3])}
    fetched = create_analyzer().fetches(features, outputs, labels)
    assert {name: value.numpy().tolist() for name, value in fetched.items()} == {
        PROBABILITIES: [[0, 1, 0, 0]],
        'prediction': [1],
        inputs.LABEL: [3],
        'name': [b'a.jpg'],
    }
    shown, drawn, known = create_analyzer().drawn(features, outputs, labels)
    assert shown[IMAGE].dtype == tf.uint8
    assert shown[IMAGE].numpy().tolist() == [[[[0, 26, 255]]]]
    assert set(drawn) == {CLASSES, PROBABILITIES} and known is labels
