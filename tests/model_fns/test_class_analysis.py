"""Parts of analyses about classes: what their tables and figures show."""

import numpy as np
import pytest
from matplotlib import figure as figures

from estimator_lib.analysis.parts import Figure, Table
from model_fns import class_analysis
from model_fns.classification.analysis import analyzer as analysis
from model_fns.classification.analysis import label_analyzer as label_analysis
from model_fns.segmentation.analysis import analyzer
from model_fns.structures.confusion import Confusion

NAMES = ['cat', 'dog', 'cow']
MATRIX = np.array([[8, 2, 0], [1, 3, 0], [0, 0, 0]])


def drawn(part):
    """Texts of a figure and of its axes."""
    canvas = figures.Figure()
    part.draw(canvas)
    canvas.draw_without_rendering()
    (axes,) = canvas.axes
    labels = [label.get_text() for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    return [text.get_text() for text in axes.texts], labels


def test_confusions_are_drawn_and_listed():
    section = class_analysis.confusion_section(Confusion.from_matrix(MATRIX), NAMES, 'images')
    counts, normalized, errors = section.parts
    assert drawn(counts) == (['8', '2', '1', '3'], [*NAMES, *NAMES])
    assert drawn(normalized)[0] == ['0.80', '0.20', '0.25', '0.75']
    assert isinstance(errors, Table) and counts.title == 'Confusion matrix (images)'
    assert list(errors.rows) == [('cat', 'dog', 2, 0.2), ('dog', 'cat', 1, 0.25)]


def test_large_counts_are_scaled():
    confusion = Confusion.from_matrix(MATRIX * 10**4 + 20)
    counts = class_analysis.confusion_section(confusion, NAMES, 'pixels').parts[0]
    assert counts.title == 'Confusion matrix (thousands of pixels)'
    assert drawn(counts)[0] == ['80', '20', '10', '30']


def test_many_classes_are_merged():
    count = 50
    matrix = np.diag(np.full([count], 10))
    matrix[3, 7] = 5
    names = [f'class {index}' for index in range(count)]
    section = class_analysis.confusion_section(Confusion.from_matrix(matrix), names, 'images')
    _, labels = drawn(section.parts[0])
    assert len(labels) == 2 * 40 and labels[39] == '11 other classes'
    assert {'class 3', 'class 7'} <= set(labels)


def test_the_worst_class_is_first():
    values = np.array([0.5, np.nan, 0.2])
    assert list(class_analysis.worst_first(values, NAMES).items()) == [('cow', 0.2), ('cat', 0.5)]
    assert class_analysis.known(values[1]) is None and class_analysis.known(values[0]) == 0.5


def test_figures_of_the_classes_in_the_data():
    readers = {'train_input_reader': [{1: 3, 9: 4}, {2: 5}], 'eval_input_reader[0]': []}
    (part,) = class_analysis.class_figures(readers, {1: 'cat', 2: 'dog', 3: 'cow'}, 'pixels')
    assert isinstance(part, Figure)
    assert part.title == 'train_input_reader: pixels of each class'
    texts, labels = drawn(part)
    assert texts == ['5', '3', '0'] and labels[-3:] == ['dog', 'cat', 'cow']


@pytest.mark.parametrize('unit', ['images', 'pixels'])
def test_an_evaluation_without_errors(unit):
    confusion = Confusion.from_matrix(np.diag([2, 0, 1]))
    assert class_analysis.confusion_section(confusion, NAMES, unit).parts[-1].rows == []


def test_weak_classes_have_less_than_half_of_the_mean():
    nan = float('nan')
    assert class_analysis.advise_on_classes({'cat': 0.9, 'dog': 0.8, 'fox': 0.1, 'no': nan}) == [
        'more images of class fox (0.10): the mean of the classes is 0.60'
    ]
    assert class_analysis.advise_on_classes({'cat': 0.9, 'dog': 0.5}) == []
    assert class_analysis.advise_on_classes({'cat': 0.09, 'dog': 0.0}) == []  # nothing is learned
    assert class_analysis.advise_on_classes({}) == []
    many = {'a': 1.0, **dict.fromkeys('bcdef', 0.01)}
    assert 'class b (0.01), c (0.01), d (0.01) and 2 others' in ''.join(
        class_analysis.advise_on_classes(many)
    )


def test_values_of_the_first_metric_of_classes():
    metrics = {'F1_class_0': 0.1, 'AP_class_1': 0.5, 'AP_class_0': 0.4, 'AP_class_9': 0.3, 'AP': 1}
    assert class_analysis.values_by_class(metrics, ['x', 'y']) == {'x': 0.4, 'y': 0.5}
    assert class_analysis.values_by_class({'miou_1.0_class_0': 0.2}, ['x']) == {'x': 0.2}
    assert class_analysis.values_by_class({}, ['x']) == {}


@pytest.mark.parametrize(
    ('create', 'metric'),
    [
        (lambda names: analysis.ClassificationAnalyzer(names, 0, None), 'accuracy'),
        (lambda names: label_analysis.MultiLabelAnalyzer(names, None), 'AP'),
        (lambda names: analyzer.SegmentationAnalyzer(names, 255), 'miou_1.0'),
    ],
)
def test_each_task_without_boxes_names_its_weak_classes(create, metric):
    metrics = {f'{metric}_class_0': 0.9, f'{metric}_class_1': 0.1, 'other': 0.0}
    (text,) = create(['cat', 'fox']).advise(metrics)
    assert text.startswith('more images of class fox (0.10)')
