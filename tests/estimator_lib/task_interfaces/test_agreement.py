import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.task_interfaces import agreement


def test_exact_agreement_by_hand():
    expected = [{'a': np.array([1.0, 2.0]), 'b': np.array([1, 2])}]
    found = [{'a': np.array([1.00001, 2.1]), 'b': np.array([1, 2])}]
    assert agreement.compare(expected, found) == {'a': 0.5, 'b': 1.0}
    found = [{'a': np.array([1.0]), 'b': np.array([3, 2])}]
    assert agreement.compare(expected, found) == {'a': 0.0, 'b': 0.5}


def test_what_is_not_exact_may_be_a_tenth_of_the_range_of_all_images_apart():
    expected = [{'a': np.array([0.0, 4.0]), 'b': np.array([1])}, {'a': np.array([-6.0, 1.0])}]
    expected[1]['b'] = np.array([2])
    found = [{'a': np.array([0.9, 5.1]), 'b': np.array([1])}, {'a': np.array([-5.1, 0.1])}]
    found[1]['b'] = np.array([3])
    assert agreement.compare(expected, found, exact=False) == {'a': 0.75, 'b': 0.5}
    # What is the same for all images is held to be so.
    alike = [{'a': np.array([2.0, 2.0])}]
    assert agreement.compare(alike, [{'a': np.array([2.0, 2.1])}], exact=False) == {'a': 0.5}


def test_a_class_that_is_as_probable_as_the_best_is_as_good():
    probabilities = [np.array([[0.5, 0.3, 0.2]]), np.array([[0.395, 0.4, 0.205]])]
    assert agreement.class_agreement(probabilities, [np.array([0]), np.array([0])]) == 1.0
    assert agreement.class_agreement(probabilities, [np.array([1]), np.array([1])]) == 0.5
    assert agreement.class_agreement(probabilities, [np.array([2]), np.array([2])]) == 0.0


def test_largest_differences_by_hand():
    expected = [{'a': np.array([1.0, 2.0]), 'b': np.array([1])}, {'a': np.array([3.0, 3.0])}]
    expected[1]['b'] = np.array([1])
    found = [{'a': np.array([1.5, 2.0]), 'b': np.array([5])}, {'a': np.array([3.0, 1.0])}]
    found[1]['b'] = np.array([1])
    assert agreement.largest_differences(expected, found) == {'a': 2.0}


def test_a_file_below_the_bound_is_refused_by_its_worst_output(caplog):
    caplog.set_level('INFO', 'estimator_lib')
    agreement.require({'a': 0.9, 'b': 0.8}, 0.8, 'x/model.bin', '8 images of noise')
    assert caplog.messages == [
        'agreement with the network on 8 images of noise: a 90.00%, b 80.00%'
    ]
    with pytest.raises(errors.UserError) as caught:
        agreement.require({'a': 0.9, 'b': 0.79999}, 0.8, 'x/model.bin', '8 images of noise')
    assert str(caught.value) == (
        'model.bin was written and computes something else than the model: 79.99% of b agree; '
        'expected at least 80%. No export is left.'
    )


def test_a_file_that_answers_all_images_alike_is_refused_where_the_model_does_not():
    alike = [{'a': np.array([1.0])}, {'a': np.array([1.0])}]
    differing = [{'a': np.array([1.0])}, {'a': np.array([2.0])}]
    agreement.require_change(alike, alike, 'model.bin')
    agreement.require_change(differing, differing, 'model.bin')
    with pytest.raises(errors.UserError, match=r'model\.bin .* every image with the same outputs'):
        agreement.require_change(differing, alike, 'model.bin')


@pytest.mark.parametrize(
    ('is_higher', 'file', 'most', 'is_refused'),
    [
        (True, 0.88, 0.0201, False),
        (True, 0.88, 0.0199, True),
        (True, 0.95, 0.0, False),  # better
        (True, 0.9, 0.0, False),
        (False, 0.92, 0.0201, False),
        (False, 0.92, 0.0199, True),
        (True, float('nan'), 1.0, True),
    ],
)
def test_a_file_that_loses_too_much_of_a_metric_is_refused(
    is_higher, file, most, is_refused, caplog
):
    caplog.set_level('INFO', 'estimator_lib')
    pair = agreement.MetricPair('accuracy', is_higher, 0.9, file)
    said = f'accuracy of model.bin is {file:g}, and of the checkpoint 0.9'
    if is_refused:
        with pytest.raises(errors.UserError) as caught:
            agreement.require_metric(pair, most, 'x/model.bin')
        assert str(caught.value) == (
            f'{said}; expected at most {most:g} worse (--max_loss). No export is left.'
        )
    else:
        agreement.require_metric(pair, most, 'x/model.bin')
    assert caplog.messages == [said]
