"""Histograms of classes, and the classes that lack examples."""

import pytest

from model_fns.class_report import (
    class_report,
    effective_number,
    inverse_frequency,
    labeled_report,
)
from model_fns.datasets.meaning.annotated import Annotated

NAMES = {1: 'cat', 2: 'dog', 3: 'cow', 4: 'hen'}
TRAINING = [{1: 3, 2: 1}, {1: 2}, {}]


def test_a_histogram_has_objects_and_images():
    report = class_report({'train_input_reader': TRAINING}, {1: 'cat', 2: 'dog'}, 'objects')
    assert report.lines == [
        'train_input_reader: classes',
        '  1 cat            5 objects  83.3%  in 2 of 3 images',
        '  2 dog            1 objects  16.7%  in 1 of 3 images',
    ]
    assert report.warnings == []


def test_what_is_no_class_is_ignored():
    report = class_report({'train_input_reader': [{0: 9, 255: 1}]}, {0: 'background'}, 'pixels')
    assert report.lines[2] == '  255 (ignored)            1 pixels  10.0%  in 1 of 1 images'
    assert report.warnings == []


def test_classes_without_examples_and_in_one_split_alone():
    readers = {
        'train_input_reader': TRAINING,
        'eval_input_reader[0]': [{1: 1}],
        'eval_input_reader[1]': [{3: 1}],
    }
    assert class_report(readers, NAMES, 'objects').warnings == [
        'there is no example of 1 of 4 classes: 4 hen',
        'evaluation has examples of, and training has none of 1 of 4 classes: 3 cow',
        'training has examples of, and evaluation has none of 1 of 4 classes: 2 dog',
    ]


def test_training_on_nothing_is_a_problem_and_evaluation_on_nothing_a_doubt():
    readers = {'train_input_reader': [{}, {7: 2}], 'eval_input_reader[0]': [{}]}
    report = class_report(readers, {1: 'cat', 2: 'dog'}, 'objects')
    assert report.problems == ['train_input_reader: there are no objects of any of the 2 classes']
    assert report.warnings[0] == (
        'eval_input_reader[0]: there are no objects of any of the 2 classes'
    )
    readers['train_input_reader'].append({2: 1})
    assert class_report(readers, {1: 'cat', 2: 'dog'}, 'objects').problems == []


def test_without_records_nothing_is_said():
    report = class_report({'train_input_reader': [], 'eval_input_reader[0]': []}, NAMES, 'images')
    assert (list(report.lines), list(report.warnings)) == ([], [])


def test_long_histograms_are_cut_in_the_middle():
    counts = [{class_id: 100 - class_id for class_id in range(40)}]
    report = class_report({'r': counts}, {n: f'c{n}' for n in range(50)}, 'images')
    assert len(report.lines) == 1 + 30 + 1
    assert report.lines[16] == '  ... 10 classes between these'
    assert report.lines[15].split()[:3] == ['14', 'c14', '86']
    assert report.lines[17].split()[:3] == ['25', 'c25', '75']
    assert report.warnings == [
        'there is no example of 10 of 50 classes: 40 c40, 41 c41, 42 c42, 43 c43, 44 c44, 45 c45, '
        '46 c46, 47 c47, 48 c48, 49 c49'
    ]


def test_class_weights_by_hand():
    assert inverse_frequency([30, 10]) == pytest.approx([40 / 60, 40 / 20])
    # Effective numbers of 1 and 2 samples at beta 0.5: 1 and 1.5.
    assert effective_number([1, 2], 0.5) == pytest.approx([2 / (1 + 1 / 1.5), 2 / (1.5 + 1)])
    assert effective_number([5, 50], 0.0) == [1.0, 1.0]


def test_weights_of_uneven_classes_are_shown_in_the_order_of_ids():
    def lines(counts, unit='objects'):
        return class_report({'train_input_reader': [counts]}, {2: 'dog', 1: 'cat'}, unit).lines[3:]

    assert lines({1: 300, 2: 30}) == [
        '  class_weights: [0.55, 5.5]  (inverse frequency)',
        '  class_weights: [0.205, 1.8]  (effective number, beta 0.999)',
    ]
    assert lines({1: 299, 2: 30}) == []
    assert lines({1: 300}) == [] == lines({1: 300, 2: 30}, 'pixels')


def test_what_was_looked_for_is_told_by_class():
    def image(looked_for, **counts):
        ids = {'car': 1, 'bus': 2, 'van': 3}
        annotated = Annotated('', (1, 1), looked_for=looked_for)
        return annotated, {ids[name]: count for name, count in counts.items()}

    records = [image(('car', 'van'), car=2), image(('car', 'van'), bus=1), image((), car=1, bus=4)]
    names = {1: 'car', 2: 'bus', 3: 'van'}
    found = labeled_report(
        {'train_input_reader': records}, names, {'car': 1, 'bus': 2, 'van': 3}.get
    )
    assert found.lines == [
        'train_input_reader: 2 images, looked for: car, van',
        '  car: 2',
        '  bus: 1',
        '  van: 0',
        'train_input_reader: 1 image, looked for: all classes',
        '  car: 1',
        '  bus: 4',
        '  van: 0',
    ]
    (warning,) = found.warnings
    assert 'labeled_classes names car, van' in warning and warning.endswith('labels of bus, too')
    missing = {'train_input_reader': [image(('car',), car=1)]}
    found = labeled_report(missing, names, {'car': 1}.get)
    assert '  bus: not looked for' in found.lines
    everything = {'train_input_reader': records[2:]}
    assert not labeled_report(everything, names, {}.get).lines
