import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.task_interfaces import deployable
from tests.estimator_lib import tiny_task


class Plain(tiny_task.TinyDeployable):
    """One that chooses nothing."""

    finish = deployable.Deployable.finish


def test_unless_a_task_says_otherwise_the_raw_outputs_are_those_of_the_file():
    one = Plain(tiny_task.TinyTask())
    for ops in deployable.Ops:
        assert one.finish({'a': 1}, ops) == {'a': 1}


def test_unless_a_task_says_otherwise_numbers_are_compared():
    one = Plain(tiny_task.TinyTask())
    expected, found = [{'a': np.array([0.0, 10.0])}], [{'a': np.array([0.5, 12.0])}]
    assert one.agreement(expected, found, exact=False) == {'a': 0.5}
    assert one.agreement(expected, found, exact=True) == {'a': 0.0}
    assert one.largest_differences(expected, found) == {'a': 2.0}


def test_an_option_that_a_task_does_not_know_is_refused():
    deployable.NO_CHANGES.refuse_others((), 'none is known')
    options = deployable.DeploymentOptions(max_detections=5, fast_nms=True)
    assert options.changed() == ['max_detections', 'fast_nms']
    options.refuse_others(('max_detections', 'fast_nms'), 'others are not known')
    with pytest.raises(errors.UserError) as caught:
        options.refuse_others(('fast_nms',), 'a classifier finds no objects')
    assert str(caught.value) == ('--max_detections: a classifier finds no objects; leave it out.')
