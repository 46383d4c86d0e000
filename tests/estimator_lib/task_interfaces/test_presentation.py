"""Defaults of what people see of a task, and limits on it."""

import numpy as np

from estimator_lib.task_interfaces.presentation import (
    AS_CONFIGURED,
    Description,
    Presentation,
    Shown,
)


class Drawing(Presentation):
    """Draws its outputs, and nothing else."""

    def draw(self, features, outputs, labels=None, shown=AS_CONFIGURED):
        return outputs['mask'] + 1


def test_a_task_that_shows_nothing():
    shows = Presentation()
    assert shows.draw({}, {}) is None
    assert shows.draw_metrics({'accuracy': 1.0}) == {}
    assert shows.files({}, {}) == {}
    assert shows.describe({}, {'logits': 1}) == Description({'logits': 1})
    assert shows.nothing_found(Shown(0.5), AS_CONFIGURED) == ''
    assert shows.coco_results({}, {'logits': 1}) is None
    assert shows.regions({}, {'logits': 1}) is None
    assert shows.submission_lines('stem', {}, {'logits': 1}) is None
    assert shows.merge_tiles([((0, 0, 2, 2), {})], (2, 2)) is None
    assert shows.merges_whole_image and not shows.tiled_outputs and not shows.described_outputs
    assert shows.worth_showing({'accuracy': 1.0}) == AS_CONFIGURED
    assert shows.metric_title('accuracy') == 'accuracy'
    assert shows.class_names == ()


def test_a_description_has_the_picture_that_the_task_draws():
    described = Drawing().describe({}, {'mask': np.array([1, 2])})
    assert described.picture.tolist() == [2, 3]


def test_limits_of_the_user_come_first():
    assert Shown(0.5).or_else(Shown(0.3, 4)) == Shown(0.5, 4)
    assert Shown(0.0).or_else(Shown(0.3)) == Shown(0.0)
    assert AS_CONFIGURED.or_else(Shown(0.3)) == Shown(0.3)
