import math

import numpy as np
import pytest

from estimator_lib.config import load_pipeline_config
from model_fns.cli import builtin_configs
from model_fns.datasets import scenes, shapes, textures


def _scene(seed, names=('star', 'ring', 'arrow'), size=64, **options):
    return scenes.draw_scene(np.random.default_rng(seed), size, names, (0.2, 0.4), **options)


@pytest.mark.parametrize('cells', [1, 3, 8])
def test_smooth_noise_interpolates_its_grid(cells):
    size = 24
    noise = textures.smooth_noise(np.random.default_rng(0), size, cells)
    grid = np.random.default_rng(0).random((cells + 1, cells + 1), np.float32)
    positions = (np.arange(size) + 0.5) / size * cells
    for i in (0, 5, 23):
        for j in (0, 11, 23):
            y, x = positions[i], positions[j]
            top, left = int(y), int(x)
            dy, dx = y - top, x - left
            cell = grid[top : top + 2, left : left + 2]
            expected = [1 - dy, dy] @ cell @ [1 - dx, dx]
            assert noise[i, j] == pytest.approx(expected, abs=1e-5)


def test_textures_stay_between_their_colors_and_are_of_every_kind():
    low, high = np.array([10, 200, 30]), np.array([50, 100, 30])
    kinds = set()
    for seed in range(30):
        pixels = textures.texture(np.random.default_rng(seed), 32, low, high)
        assert pixels.dtype == np.float32 and pixels.shape == (32, 32, 3)
        assert (pixels >= np.minimum(low, high) - 1e-3).all()
        assert (pixels <= np.maximum(low, high) + 1e-3).all()
        assert pixels.std(axis=(0, 1))[:2].min() > 0
        kinds.add(textures._PATTERNS[np.random.default_rng(seed).integers(4)].__name__)
    assert len(kinds) == len(textures._PATTERNS)


def test_scenes_are_a_function_of_the_seed():
    one, same, other = _scene(1), _scene(1), _scene(2)
    np.testing.assert_array_equal(one.image, same.image)
    assert [item.placement for item in one.objects] == [item.placement for item in same.objects]
    assert (one.image != other.image).any()


@pytest.mark.parametrize('seed', range(15))
def test_objects_are_inside_disjoint_and_where_their_placement_is(seed):
    scene = _scene(seed)
    assert scene.image.shape == (64, 64, 3) and scene.image.dtype == np.uint8
    assert scene.objects[0].name == 'star'
    assert np.sum([item.mask for item in scene.objects], axis=0).max() == 1
    for item in scene.objects:
        whole = shapes.coverage(item.name, item.placement, 64, 64).values
        assert item.mask.sum() > 0.5 * (whole >= 0.5).sum()
        top, left, bottom, right = item.box
        assert 0 <= top < bottom <= 64 and 0 <= left < right <= 64
        assert item.mask[top:bottom, left:right].sum() == item.mask.sum()
        assert item.mask[top].any() and item.mask[bottom - 1].any()
        assert item.mask[:, left].any() and item.mask[:, right - 1].any()
        assert top <= item.placement.center_y <= bottom
        assert left <= item.placement.center_x <= right


def test_turned_boxes_hold_their_objects():
    for seed in range(10):
        for item in _scene(seed).objects:
            place = item.placement
            rows, columns = np.nonzero(item.mask)
            dy, dx = rows + 0.5 - place.center_y, columns + 0.5 - place.center_x
            x = dx * math.cos(place.angle) + dy * math.sin(place.angle)
            y = dy * math.cos(place.angle) - dx * math.sin(place.angle)
            assert np.abs(x).max() <= place.width / 2 + 0.5
            assert np.abs(y).max() <= place.height / 2 + 0.5


def test_a_later_object_hides_an_earlier_one():
    place = shapes.Placement(5, 5, 4, 4, 0)
    wide, narrow = np.zeros((10, 10), bool), np.zeros((10, 10), bool)
    wide[2:8, 2:8], narrow[4:6, 4:6] = True, True
    first, second = scenes._visible([('ring', place, wide), ('star', place, narrow)])
    assert (first.name, second.name) == ('ring', 'star')
    assert first.mask.sum() == 36 - 4 and second.mask.sum() == 4
    scene = scenes.Scene(np.zeros((10, 10, 3), np.uint8), (first, second))
    assert scene.main_object is first


def test_turns_are_limited():
    angles = [_scene(seed, most_turn=0.3).objects[0].placement.angle for seed in range(30)]
    assert 0.2 < np.abs(angles).max() <= 0.3
    assert np.min(angles) < 0 < np.max(angles)


def test_extreme_points_by_hand():
    mask = np.zeros([6, 8], bool)
    mask[1, 3:6] = mask[2:4, 2:5] = mask[4, 4] = mask[3, 7] = True
    points = scenes.SceneObject('star', None, mask).extreme_points
    # Centers of pixels: the middle of three on top, of two on the left.
    np.testing.assert_array_equal(points, [[1.5, 4.5], [3.0, 2.5], [4.5, 4.5], [3.5, 7.5]])


@pytest.mark.parametrize(
    ('step', 'move', 'moved_point'),
    [
        ('random_horizontal_flip', lambda mask: mask[:, ::-1], lambda y, x: (y, 32 - x)),
        ('random_vertical_flip', lambda mask: mask[::-1], lambda y, x: (32 - y, x)),
        ('random_rotation90', np.rot90, lambda y, x: (32 - x, y)),
    ],
)
def test_the_keypoint_demo_exchanges_the_points_of_moved_shapes(step, move, moved_point):
    config = load_pipeline_config(builtin_configs.resolve('builtin:demo_keypoint_rcnn'))
    (option,) = (
        getattr(option, step)
        for option in config.train_config.data_augmentation_options
        if option.HasField(step)
    )
    permutation = next(iter(value for _, value in option.ListFields()))
    mask = np.random.default_rng(0).random((32, 32)) < 0.05
    points = scenes.SceneObject('star', None, mask).extreme_points
    expected = scenes.SceneObject('star', None, move(mask)).extreme_points
    np.testing.assert_allclose([moved_point(*points[number]) for number in permutation], expected)
