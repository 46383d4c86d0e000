"""Analysis of segmentations: each number against loops over pixels, each type of error by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib.analysis.parts import Table
from model_fns.segmentation import fields
from model_fns.segmentation.analysis import analyzer as analyzer_lib
from model_fns.segmentation.analysis import class_boundaries
from tests.model_fns.segmentation.analysis.boundary_search import IGNORED, slow_counts

NAMES = ['road', 'car', 'tree', 'sky']
HEIGHT, WIDTH = 9, 12


def create_analyzer():
    return analyzer_lib.SegmentationAnalyzer(NAMES, IGNORED)


def example(predictions, labels, padding=0):
    """Tensors of an image, with padding at the bottom and right that looks labeled."""
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    pad = [(0, padding)] * 2
    return {
        fields.SEMANTIC_PREDICTIONS: np.pad(predictions, pad, constant_values=2).astype(np.int32),
        fields.SEMANTIC: np.pad(labels, pad, constant_values=1).astype(np.int32),
        fields.TRUE_IMAGE_SHAPE: np.array([*labels.shape, 3], np.int32),
    }


@pytest.fixture(scope='module')
def images():
    """Predictions and labels of images; there is no sky in either."""
    random = np.random.RandomState(0)
    pairs = []
    for _ in range(6):
        labels = np.zeros([HEIGHT, WIDTH], int)
        for index in (1, 2):
            top, left = random.randint(0, 6, [2])
            labels[top : top + 4, left : left + 5] = index
        predictions = np.roll(labels, random.randint(-1, 2, [2]), axis=(0, 1))
        predictions[random.uniform(size=labels.shape) < 0.05] = 2
        labels[random.uniform(size=labels.shape) < 0.1] = IGNORED
        pairs.append((predictions, labels))
    return pairs


@pytest.fixture(scope='module')
def sections(images):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_boundaries, 'TOLERANCE', 0.1)  # 1.5 pixels
        analyzer = create_analyzer()
        for number, (predictions, labels) in enumerate(images):
            analyzer.add(example(predictions, labels, padding=number))
        return analyzer.finish({})


def tables(sections):
    parts = [part for section in sections for part in section.parts]
    return {part.name: part for part in parts if isinstance(part, Table)}


def ratio(part, whole):
    return part / whole if whole else math.nan


def slow_matrix(images):
    matrix = np.zeros([4, 4], int)
    for predictions, labels in images:
        for pixel in np.ndindex(labels.shape):
            if labels[pixel] != IGNORED:
                matrix[labels[pixel], predictions[pixel]] += 1
    return matrix


def slow_scores(matrix, counts, index):
    """The cells of a class, from the confusion of pixels and the counts of its boundaries."""
    both = matrix[index, index]
    labeled, predicted = matrix[index].sum(), matrix[:, index].sum()
    right, edges, found, true = counts
    precision, recall = ratio(right, edges), ratio(found, true)
    f_score = ratio(2 * precision * recall, precision + recall)
    return [
        labeled,
        predicted,
        ratio(both, labeled + predicted - both),
        ratio(2 * both, labeled + predicted),
        ratio(both, predicted),
        ratio(both, labeled),
        f_score,
        precision,
        recall,
    ]


def test_scores_of_classes_equal_loops(images, sections):
    matrix = slow_matrix(images)
    tolerance = 0.1 * np.hypot(HEIGHT, WIDTH)
    counts = sum(np.array(slow_counts(*pair, tolerance, len(NAMES))) for pair in images)
    rows = tables(sections)['classes'].rows
    for index, name in enumerate(NAMES):
        assert rows[index][0] == name
        numbers = [math.nan if cell is None else cell for cell in rows[index][1:]]
        expected = slow_scores(matrix, counts[index], index)
        assert numbers == pytest.approx(expected, nan_ok=True), name
    assert rows[3][3] is None and 0.2 < rows[1][3] < 0.95 and 0.2 < rows[1][7] < 0.99


def test_tiles(images, sections):
    matrix = slow_matrix(images)
    scores = [slow_scores(matrix, [0, 0, 0, 0], index) for index in range(3)]
    tiles = {tile.title: tile.value for tile in sections[0].tiles}
    assert tiles['mean IoU'] == f'{np.mean([each[2] for each in scores]):.1%}'
    assert tiles['mean Dice'] == f'{np.mean([each[3] for each in scores]):.1%}'
    assert tiles['pixel accuracy'] == f'{np.trace(matrix) / matrix.sum():.1%}'


def test_confusions_are_listed(images, sections):
    matrix = slow_matrix(images)
    for label, prediction, count, fraction in tables(sections)['confusions'].rows:
        indices = NAMES.index(label), NAMES.index(prediction)
        assert matrix[indices] == count
        assert fraction == count / slow_matrix(images)[indices[0]].sum()
        matrix[indices] = 0
    assert np.all(matrix == np.diag(np.diag(matrix)))


def test_types_of_errors_by_hand():
    labels = np.zeros([10, 10], int)
    labels[:2], labels[2:4], labels[9] = 1, 2, IGNORED
    predictions = np.zeros([10, 10], int)
    predictions[3], predictions[8], predictions[9] = 2, 3, 1
    found = create_analyzer().add(example(predictions, labels))
    # 20 pixels of car, 10 of tree and 10 of road are wrong, of 90 that are labeled.
    assert found.badness == pytest.approx(40 / 90)
    rows = [(each.kind, each.class_name, each.overlap, each.note) for each in found.errors]
    assert rows == [
        ('missed', 'car', 0.0, 'predicted as road'),
        ('false', 'sky', 0.0, 'labeled as road'),
    ]
    # Road (40 of 80 pixels) and tree (10 of 20) are exactly at the limit; a pixel less is below it.
    predictions[3, 0] = 0
    road, _, tree, _ = create_analyzer().add(example(predictions, labels)).errors
    assert (road.kind, road.class_name, road.note) == ('low overlap', 'road', 'confused with car')
    assert (tree.kind, tree.class_name, tree.note) == ('low overlap', 'tree', 'confused with road')
    assert road.overlap == pytest.approx(40 / 81) and tree.overlap == pytest.approx(9 / 20)
    assert road.score is None


def test_a_perfect_image_and_one_without_labels():
    labels = np.eye(9, 12, dtype=int)
    analyzer = create_analyzer()
    assert analyzer.finish({}) == []
    ignored = np.full_like(labels, IGNORED)
    for predictions, truth in ((labels, labels), (labels, ignored)):
        found = analyzer.add(example(predictions, truth))
        assert found.badness == 0 and not found.errors
    assert tables(analyzer.finish({}))['classes'].rows[1][1:4] == (9, 9, 1.0)


def test_tensors():
    features = {
        fields.IMAGE: tf.constant([[[[-1.0, 25.6, 999.0]]]]),
        fields.TRUE_IMAGE_SHAPE: tf.constant([[1, 1, 3]]),
    }
    outputs = {
        fields.SEMANTIC_PREDICTIONS: tf.constant([[[2]]], tf.int64),
        fields.SEMANTIC_PROBABILITIES: tf.ones([1, 1, 1, 4]),
    }
    labels = {fields.SEMANTIC: tf.constant([[[1]]]), fields.OFFSET: tf.ones([1, 1, 1, 2])}
    analyzer = create_analyzer()
    fetched = analyzer.fetches(features, outputs, labels)
    assert sorted(fetched) == sorted(example([[2]], [[1]]))
    one = {name: value.numpy()[0] for name, value in fetched.items()}
    assert analyzer.add(one).badness == 1.0
    shown, drawn, known = analyzer.drawn(features, outputs, labels)
    assert shown[fields.IMAGE].numpy().tolist() == [[[[0, 26, 255]]]]
    assert set(drawn) == {fields.SEMANTIC_PREDICTIONS} and set(known) == {fields.SEMANTIC}
