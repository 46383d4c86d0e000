import pytest

from estimator_lib import errors
from model_fns.detection.data.augmentation import steps
from protos import augmentation_pb2

CROP = augmentation_pb2.RandomCropImage


def test_a_value_that_is_wrong_is_shown_with_its_path():
    config = CROP(min_area=0.1)
    with pytest.raises(errors.ConfigError, match=r'^here\.min_area: 0\.1; expected more\.$'):
        steps.check(False, 'here', config, 'min_area', 'more')
    steps.check(True, 'here', config, 'min_area', 'more')


@pytest.mark.parametrize(
    ('value', 'text'),
    [(True, 'True'), (3, '3'), ('a', "'a'"), (0.1, '0.1'), ([1, 0.5], '[1, 0.5]')],
)
def test_values_are_shown_as_people_write_them(value, text):
    assert steps.shown(value) == text


def test_shares():
    steps.check_shares(
        CROP(overlap_thresh=1.0, random_coef=0.0), 'x', 'overlap_thresh', 'random_coef'
    )
    with pytest.raises(errors.ConfigError, match='x.overlap_thresh: 1.5; expected a number from 0'):
        steps.check_shares(CROP(overlap_thresh=1.5), 'x', 'overlap_thresh')


def test_least():
    steps.check_least(CROP(min_area=2.0), 'x', 2, 'min_area')
    with pytest.raises(errors.ConfigError, match='x.min_area: 1; expected a number from 2 up'):
        steps.check_least(CROP(min_area=1.0), 'x', 2, 'min_area')


@pytest.mark.parametrize(
    ('low', 'high', 'message'),
    [
        (-0.5, 0.5, 'x.min_area: -0.5; expected a number from 0.0 up'),
        (0.5, 1.5, 'x.max_area: 1.5; expected a number up to 1.0'),
        (0.5, 0.25, 'x.max_area: 0.25; expected at least min_area, 0.5'),
    ],
)
def test_ranges(low, high, message):
    ends = 'min_area', 'max_area'
    assert steps.check_range(CROP(min_area=0.25, max_area=0.5), 'x', *ends) == (0.25, 0.5)
    with pytest.raises(errors.ConfigError, match=message):
        steps.check_range(CROP(min_area=low, max_area=high), 'x', *ends, (0.0, 1.0))


def test_positive_numbers():
    assert steps.check_positive(CROP(min_area=0.5), 'x', 'min_area') == 0.5
    for call in (
        lambda: steps.check_positive(CROP(min_area=0.0), 'x', 'min_area'),
        lambda: steps.check_positive_range(CROP(min_area=0.0), 'x', 'min_area', 'max_area'),
    ):
        with pytest.raises(errors.ConfigError, match='x.min_area: 0; expected a number above 0'):
            call()


def test_counts():
    pad = augmentation_pb2.RandomPadImage
    assert steps.check_count(pad(pad_color=[1, 2, 3]), 'x', 'pad_color', 3) == (1, 2, 3)
    assert steps.check_count(pad(), 'x', 'pad_color', 3) == ()
    with pytest.raises(errors.ConfigError, match=r'x.pad_color: \[1\]; expected 3 values, or none'):
        steps.check_count(pad(pad_color=[1]), 'x', 'pad_color', 3)
