"""Decisions that tasks share, by hand."""

import numpy as np
import pytest

from model_fns.recipes import decisions
from model_fns.recipes.decisions import Wishes
from model_fns.recipes.facts import Facts, ImageFacts


def test_steps_of_minutes_and_epochs():
    plan = decisions.schedule(Wishes(minutes=2.0), num_images=100, batch_size=4, seconds=0.25)
    assert plan.steps == 480 and '19.2 epochs' in plan.reason and '0.25 s a step' in plan.reason
    plan = decisions.schedule(Wishes(None, epochs=1.5), num_images=10, batch_size=4, seconds=0.0)
    assert plan.steps == 4 and plan.reason == '1.5 epochs of 10 images'
    assert decisions.schedule(Wishes(minutes=0.01), 10, 4, 60.0).steps == 1


def test_what_follows_from_the_steps():
    plan = decisions.Schedule(240, '')
    found = {each.path: each.value for each in decisions.schedule_decisions(plan, 5.0, 'rate')}
    assert found == {
        'train_config.num_steps': 240,
        'train_config.checkpoints.save_every_n_steps': 120,
        'train_config.progress.every_n_steps': 12,
        'rate.warmup_steps': 24,
    }
    found = {
        each.path: each.value
        for each in decisions.schedule_decisions(plan._replace(steps=5000), 60.0, 'rate')
    }
    assert found['train_config.checkpoints.save_every_n_steps'] == 1250
    assert found['rate.warmup_steps'] == 100


@pytest.mark.parametrize(
    ('side', 'images', 'affordable'),
    [(256, 6000, 256), (256, 13_500, 384), (256, 1e6, 512), (256, 100, 256), (384, 6000, 384)],
)
def test_time_pays_for_larger_inputs_where_enough_images_are_seen(side, images, affordable):
    assert decisions.affordable_side(side, images, 6000, 256) == pytest.approx(affordable)


def test_few_objects_are_below_eight_pixels():
    sides = np.array([0.01] + [0.04] * 39)
    side = decisions.side_for_objects(sides)
    assert side == pytest.approx(8 / 0.04) and np.mean(sides * side < 7.999) <= 0.05


@pytest.mark.parametrize(
    ('side', 'aspect', 'longest', 'shape'),
    [
        (256, 1.0, None, (256, 256)),
        (256, 4 / 3, None, (224, 288)),
        (256, 9.0, None, (192, 352)),  # as for 2
        (256, 16 / 9, 640, (352, 640)),
        (256, 0.75, 512, (512, 384)),
        (10, 1.0, None, (32, 32)),
    ],
)
def test_shapes_of_inputs(side, aspect, longest, shape):
    assert decisions.shape_of_input(side, aspect, 32, longest) == shape


@pytest.mark.parametrize(
    ('names', 'sided'),
    [
        (['cat', 'dog'], ''),
        (['turn_left', 'turn_right'], 'turn_left'),
        (['LeftHand'], 'LeftHand'),
        (['bright', 'leftover', 'context'], ''),
        (['0', '1'], '0'),
        (['A', 'B'], 'A'),
        (['a'], ''),
        (['car', 'text-line'], 'text-line'),
        (['digit5'], 'digit5'),
    ],
)
def test_names_that_a_mirror_changes(names, sided):
    assert decisions.find_sided(names) == sided
    assert decisions.mirror_reason(sided).startswith('No mirrored' if sided else 'Mirrored')


def test_images_of_rare_classes_come_more_often():
    def facts(count):
        images = [ImageFacts((9, 9), np.zeros([0, 4]), ('cat',))] * (200 - count)
        images += [ImageFacts((9, 9), np.zeros([0, 4]), ('lynx', 'cat'))] * count
        return Facts(images, [], ['cat', 'lynx'])

    (decision,) = decisions.repeat_decisions(facts(3))
    assert decision.path == 'train_config.repeat_factor_threshold'
    assert "'lynx' is in 3 of 200 images" in decision.reason
    assert not decisions.repeat_decisions(facts(4))


def test_inputs_that_squeeze_images_and_small_objects_are_described():
    said = decisions.odd_aspect([1.0] * 420, 4 / 3)
    assert said == "all 420 images are about 1.00:1, and the network's input is 1.33:1"
    assert not decisions.odd_aspect([1.0, 1.3, 1.3], 4 / 3)
    assert not decisions.odd_aspect([0.7, 1.0, 1.3, 1.8], 1.2)  # of many shapes
    assert decisions.small_objects(np.array([9.0, 9.0, 20.0, 30.0])).startswith('50% of the boxes')
    assert not decisions.small_objects(np.array([9.0] + [20.0] * 9))
