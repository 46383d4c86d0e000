"""Sections of the report; `test_analyzer` holds their numbers against slow versions."""

import numpy as np

from estimator_lib.analysis.parts import Figure, Table
from model_fns.detection.analysis import sections
from model_fns.detection.analysis.error_types import KINDS, Detected, Kind
from model_fns.detection.metrics.coco_matching import ClassResult


def results(counts):
    """Results of two classes: the first has a right detection and a wrong one."""
    table = np.full([10, 4], np.nan)
    table[:, :2] = 0.5
    return sections.Results(
        num_images=3,
        names=['cat', 'dog'],
        class_ids=[1, 2],
        counts=counts,
        by_class={1: ClassResult(table, np.zeros([10, 4, 3]))} if counts[1] else {},
        detected=Detected(
            np.array([1, 1]),
            np.array([0.9, 0.6], np.float32),
            np.array([True, False]),
            np.array([Kind.NONE, Kind.BACKGROUND]),
            np.array([0, 0]),
        ),
        gains={kind: 0.01 * kind for kind in KINDS},
        errors={kind: int(kind) for kind in KINDS},
        confusion=np.array([[1, 0, 1], [0, 0, 0], [1, 0, 0]]),
        least_score=0.5,
    )


def test_the_most_important_comes_first():
    made = sections.create_sections(results({1: 2, 2: 0}))
    assert [section.title for section in made] == [
        *('Classes', 'Error types', 'Confusion matrix', 'Curves')
    ]
    tiles = {tile.title: tile.value for tile in made[0].tiles}
    # One of two objects is found by one of two detections: AP50 is 51 of 101 recalls.
    assert tiles == {
        'AP': '50.0 %',
        'AP50': '50.5 %',
        'precision': '50.0 %',
        'recall': '50.0 %',
        'images': '3',
    }
    (table,) = made[0].parts
    assert list(map(len, table.rows)) == [len(table.columns)] * 2
    first = dict(zip(table.columns, table.rows[0]))
    assert [first[name] for name in ('class', 'objects', 'AP', 'AP50')] == ['cat', 2, 0.5, 0.5]
    assert [first[name] for name in ('AP75', 'AP small')] == [0.5, 0.5]
    assert first['AP medium'] is first['AP large'] is None  # there are no such objects
    # Among the columns that a laptop shows.
    assert list(table.columns).index('best threshold') == 4
    assert set(table.rows[1][2:]) == {None}
    errors = made[1].parts[1]
    assert errors.rows[0] == ('classification', 'right place, wrong class', 1, 1.0)
    assert all(isinstance(part, (Table, Figure)) for each in made for part in each.parts)


def test_data_without_objects():
    made = sections.create_sections(results({1: 0, 2: 0}))
    tiles = {tile.title: tile.value for tile in made[0].tiles}
    assert tiles['AP'] == tiles['AP50'] == tiles['recall'] == '–'
