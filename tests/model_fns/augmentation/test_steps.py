import pytest

from estimator_lib import errors
from model_fns.augmentation import steps
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


def test_counts():
    pad = augmentation_pb2.RandomPadImage
    assert steps.check_count(pad(pad_color=[1, 2, 3]), 'x', 'pad_color', 3) == (1, 2, 3)
    assert steps.check_count(pad(), 'x', 'pad_color', 3) == ()
    with pytest.raises(errors.ConfigError, match=r'x.pad_color: \[1\]; expected 3 values, or none'):
        steps.check_count(pad(pad_color=[1]), 'x', 'pad_color', 3)
