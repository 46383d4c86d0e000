import weakref

import numpy as np
import pytest

from estimator_lib.drawing.tiling import Tiling, Window
from model_fns.detection import fields
from model_fns.detection.detections import masks, merging
from model_fns.structures import rotated_overlaps, rotated_rectangles

SIZE = (400, 500)


def outputs_of(window, boxes, scores, classes, rotated=True):
    """Build the outputs of a model for a tile with these boxes, in pixels of the image."""
    boxes = np.array(boxes, np.float64)
    room = len(scores) + 2
    found = {
        fields.DETECTION_SCORES: np.pad(np.array(scores, np.float32), [0, 2]),
        fields.DETECTION_CLASSES: np.pad(np.array(classes, np.float32), [0, 2]),
        fields.NUM_DETECTIONS: np.float32(len(scores)),
    }
    local = boxes.copy()
    if not rotated:
        local = local.reshape([-1, 4]) - [window.top, window.left] * 2
        local = local / [window.height, window.width, window.height, window.width]
        return {**found, fields.DETECTION_BOXES: np.pad(local, [[0, room - len(local)], [0, 0]])}
    local = local.reshape([-1, 5])
    local[:, :2] -= [window.top, window.left]
    corners = rotated_rectangles.corners(local) / [window.height, window.width]
    numbers = rotated_rectangles.to_record(local, window.height, window.width)
    return {
        **found,
        fields.DETECTION_BOXES: np.pad(numbers, [[0, 2], [0, 0]]),
        fields.DETECTION_CORNERS: np.pad(corners.reshape([-1, 8]), [[0, 2], [0, 0]]),
    }


def in_image(merged):
    return rotated_rectangles.from_record(merged[fields.DETECTION_BOXES], *SIZE)


def seen_in(window, box):
    """What a perfect detector finds of a box in a tile: the part that is inside, as one that is
    shorter; none where little is."""
    top, left, height, width = window
    tile = np.array(
        [[[top, left], [top, left + width], [top + height, left + width], [top + height, left]]]
    )
    outline = rotated_rectangles.corners(np.array([box]))
    part = rotated_overlaps.intersections(outline, tile.astype(float))[0, 0] / (box[2] * box[3])
    if part < 0.2:
        return None
    if part > 0.999:
        return list(box)
    # Sample the part that is inside, and take the smallest box around.
    grid = np.linspace(-0.5, 0.5, 60)
    down, along = np.meshgrid(grid * box[2], grid * box[3], indexing='ij')
    y = box[0] + down * np.cos(box[4]) + along * np.sin(box[4])
    x = box[1] + along * np.cos(box[4]) - down * np.sin(box[4])
    inside = (y >= top) & (y <= top + height) & (x >= left) & (x <= left + width)
    return list(rotated_rectangles.smallest_around(np.stack([y[inside], x[inside]], 1)))


def test_objects_at_seams_are_found_once():
    random = np.random.RandomState(3)
    boxes = []
    while len(boxes) < 25:
        box = [
            *random.uniform([30, 30], [370, 470]),
            8,
            random.uniform(20, 40),
            *random.uniform(-1.5, 1.5, 1),
        ]
        outlines = rotated_rectangles.corners(np.array([*boxes, box]))
        if rotated_overlaps.iou(outlines[-1:], outlines[:-1]).sum() == 0:
            boxes.append(box)
    windows = Tiling(150, 50).windows(*SIZE)
    tiles, cut = [], 0
    for window in windows:
        seen = [seen_in(window, box) for box in boxes]
        seen = [one for one in seen if one is not None]
        cut += sum(one not in boxes for one in seen)
        # Parts are found with more confidence than whole ones: that must not matter.
        scores = [0.6 if one in boxes else 0.9 for one in seen]
        tiles.append((window, outputs_of(window, seen, scores, [1] * len(seen))))
    merged = merging.merge(tiles, SIZE)
    assert cut > 10
    found = rotated_rectangles.corners(in_image(merged))
    iou = rotated_overlaps.iou(found, rotated_rectangles.corners(np.array(boxes)))
    assert len(found) == 25
    np.testing.assert_allclose(np.sort(iou.max(axis=0)), np.ones(25), atol=1e-6)
    corners = merged[fields.DETECTION_CORNERS].reshape([-1, 4, 2]) * SIZE
    np.testing.assert_allclose(corners, found, atol=1e-6)


def test_doubles_become_one_and_classes_stay_apart():
    left, right = Window(0, 0, 400, 300), Window(0, 200, 400, 300)
    box, beside = [100.0, 250, 10, 60, 0.4], [100.0, 250.5, 10, 60, 0.42]
    merged = merging.merge(
        [
            (left, outputs_of(left, [box, box], [0.7, 0.5], [1, 2])),
            (right, outputs_of(right, [beside], [0.8], [1])),
        ],
        SIZE,
    )
    np.testing.assert_allclose(merged[fields.DETECTION_SCORES], [0.8, 0.5])
    np.testing.assert_allclose(merged[fields.DETECTION_CLASSES], [1, 2])
    np.testing.assert_allclose(in_image(merged), [beside, box], atol=1e-6)
    assert merged[fields.NUM_DETECTIONS] == 2


def test_what_the_own_tile_sees_counts_more():
    """Beyond the middle of what two tiles share a detection gives way to a poorer one."""
    left, right = Window(0, 0, 400, 300), Window(0, 200, 400, 300)
    whole, part = [100.0, 252, 10, 60, 0.4], [100.0, 257, 10, 50, 0.45]

    def scores(of_left, of_right):
        tiles = [
            (left, outputs_of(left, [part], [of_left], [1])),
            (right, outputs_of(right, [whole], [of_right], [1])),
        ]
        return merging.merge(tiles, SIZE)[fields.DETECTION_SCORES].tolist()

    assert scores(0.75, 0.5) == [0.5]
    # But not to one that nobody would look at.
    assert scores(0.75, 0.125) == [0.75]


def test_what_the_model_left_in_a_tile_stays():
    window, other = Window(0, 0, 400, 300), Window(0, 200, 400, 300)
    # A third of both is common.
    first, second = [100.0, 100, 20, 60, 0.0], [110.0, 100, 20, 60, 0.0]
    merged = merging.merge(
        [
            (window, outputs_of(window, [first, second], [0.9, 0.6], [1, 1])),
            (other, outputs_of(other, np.zeros([0, 5]), [], [])),
        ],
        SIZE,
    )
    np.testing.assert_allclose(in_image(merged), [first, second], atol=1e-6)


def test_outputs_are_not_kept():
    """Of three tiles, here one three times, detections alone are in memory."""
    window = Window(0, 0, 400, 300)

    def tiles():
        for _ in range(3):
            outputs = outputs_of(window, [[100.0, 100, 20, 60, 0.0]], [0.9], [1])
            alive.append(weakref.ref(outputs[fields.DETECTION_SCORES]))
            yield window, outputs

    alive = []
    assert merging.merge(tiles(), SIZE)[fields.NUM_DETECTIONS] == 1
    assert [one() is None for one in alive] == [True] * 3


def test_axis_aligned_boxes():
    left, right = Window(0, 0, 400, 300), Window(0, 200, 400, 300)
    # The second is cut by the first tile.
    whole, cut, own = [10.0, 20, 50, 60], [100.0, 270, 140, 300], [100.0, 270, 140, 320]
    merged = merging.merge(
        [
            (left, outputs_of(left, [whole, cut], [0.7, 0.9], [1, 1], rotated=False)),
            (right, outputs_of(right, [own], [0.8], [1], rotated=False)),
        ],
        SIZE,
    )
    expected = np.array([own, whole]) / [400, 500, 400, 500]
    np.testing.assert_allclose(merged[fields.DETECTION_BOXES], expected)
    assert fields.DETECTION_CORNERS not in merged


@pytest.mark.parametrize('rotated', [True, False])
def test_nothing_found(rotated):
    window = Window(0, 0, *SIZE)
    merged = merging.merge(
        [(window, outputs_of(window, np.zeros([0, 5 if rotated else 4]), [], [], rotated))], SIZE
    )
    assert merged[fields.NUM_DETECTIONS] == 0 and len(merged[fields.DETECTION_BOXES]) == 0


def parts_of(box, windows):
    """Generate the part of an axis-aligned box that each tile sees."""
    for window in windows:
        low = np.maximum(box[:2], [window.top, window.left])
        high = np.minimum(box[2:], [window.top + window.height, window.left + window.width])
        yield window, np.concatenate([low, high]) if (high > low).all() else None


@pytest.mark.parametrize(
    'box',
    [
        [120.0, 10, 140, 420],  # over four tiles of a row
        [20.0, 60, 380, 80],
        [30.0, 40, 390, 480],  # over all of them
        [95.0, 90, 165, 160],  # at a corner, a little more than what neighbors share
        [95.0, 105, 130, 300],  # its begin is in two tiles, one of which sees no more of it
    ],
)
def test_parts_of_an_object_that_no_tile_sees_are_joined(box):
    tiles = []
    for index, (window, part) in enumerate(parts_of(box, Tiling(150, 50).windows(*SIZE))):
        score = 0.6 + 0.01 * index
        boxes = [] if part is None else [part]
        found = outputs_of(
            window, np.reshape(boxes, [-1, 4]), [score] * len(boxes), [1] * len(boxes), False
        )
        tiles.append((window, found))
    merged = merging.merge(tiles, SIZE)
    assert merged[fields.NUM_DETECTIONS] == 1
    np.testing.assert_allclose(merged[fields.DETECTION_BOXES][0] * [*SIZE, *SIZE], box, atol=1e-6)
    assert merged[fields.DETECTION_SCORES][0] > 0.6


def test_a_joined_object_after_many_others_beside_the_whole_image():
    """Detections are numbered by more than there are tiles."""
    left, right, whole = Window(0, 0, 400, 300), Window(0, 200, 400, 300), Window(0, 0, *SIZE)
    others = [[10.0 * row, 20, 10 * row + 8, 60] for row in range(5)]
    parts, large = [[100.0, 20, 120, 300], [100.0, 200, 120, 400]], [99.0, 20, 121, 400]
    tiles = [
        (left, outputs_of(left, [*others, parts[0]], [0.8] * 6, [1] * 6, False)),
        (right, outputs_of(right, [parts[1]], [0.8], [1], False)),
        (whole, outputs_of(whole, [large], [0.7], [1], False)),
    ]
    found = merging.merge(tiles, SIZE)[fields.DETECTION_BOXES] * [*SIZE, *SIZE]
    np.testing.assert_allclose(sorted(found.tolist()), [*others, large], atol=1e-6)


def ellipse(box, rows, columns):
    """Return whether points are in the ellipse of a box, as numbers: [rows, columns]."""
    top, left, bottom, right = box
    down = (rows - (top + bottom) / 2) / (bottom - top)
    along = (columns - (left + right) / 2) / (right - left)
    return (down[:, np.newaxis] ** 2 + along**2 < 0.25).astype(np.float32)


def test_masks_of_parts_are_joined():
    box, small = [30.0, 40, 390, 480], [20.0, 20, 44, 50]
    tiles = []
    for window, part in parts_of(box, Tiling(150, 50).windows(*SIZE)):
        boxes = [] if part is None else [part]
        if window[:2] == (0, 0):
            boxes.append(small)
        found = outputs_of(
            window, np.reshape(boxes, [-1, 4]), [0.7] * len(boxes), [1] * len(boxes), False
        )
        # As a network: a small mask over each box, whose first and last cells are at its sides.
        found[fields.DETECTION_MASKS] = np.zeros([len(boxes) + 2, 33, 33], np.float32)
        for index, seen in enumerate(boxes):
            sides = [np.linspace(seen[axis], seen[axis + 2], 33) for axis in range(2)]
            of = box if seen is part else small
            found[fields.DETECTION_MASKS][index] = ellipse(of, *sides)
        tiles.append((window, found))
    merged = merging.merge(tiles, SIZE)
    assert merged[fields.NUM_DETECTIONS] == 2
    pasted = masks.binary_windows(
        merged[fields.DETECTION_MASKS], merged[fields.DETECTION_BOXES], SIZE
    )
    centers = [np.arange(side) * side / (side - 1) for side in SIZE]
    for (top, left, window), shape in zip(pasted, (box, small)):
        whole = np.zeros(SIZE, bool)
        whole[top : top + window.shape[0], left : left + window.shape[1]] = window
        expected = ellipse(shape, *centers) > 0
        assert np.sum(whole & expected) > 0.97 * np.sum(whole | expected)


@pytest.mark.parametrize(
    ('other', 'score', 'class_id'),
    [
        ([100.0, 200, 120, 400], 0.9, 2),  # of another class
        ([100.0, 200, 120, 400], 0.3, 1),  # much less certain
        ([115.0, 200, 145, 400], 0.9, 1),  # a quarter of it is common
        ([100.0, 230, 120, 290], 0.9, 1),  # it ends before the border of the other tile
    ],
)
def test_what_is_no_part_of_the_same_object_is_not_joined(other, score, class_id):
    left, right = Window(0, 0, 400, 300), Window(0, 200, 400, 300)
    part = [100.0, 20, 120, 300]
    merged = merging.merge(
        [
            (left, outputs_of(left, [part], [0.8], [1], False)),
            (right, outputs_of(right, [other], [score], [class_id], False)),
        ],
        SIZE,
    )
    found = (merged[fields.DETECTION_BOXES] * [*SIZE, *SIZE]).round(6).tolist()
    assert sorted(found) == sorted([part, other])


@pytest.mark.parametrize('rotated', [False, True])
def test_what_the_whole_image_shows_counts_where_it_fits_in_no_tile(rotated):
    """A large object, of which tiles find parts that do not agree, and a small one inside of it."""
    tiling = Tiling(150, 50)
    whole = Window(0, 0, *SIZE)
    large, small = [10.0, 20, 390, 480], [160.0, 160, 180, 190]

    def numbers(box):
        top, left, bottom, right = box
        center = [(top + bottom) / 2, (left + right) / 2, bottom - top, right - left, 0.0]
        return center if rotated else box

    tiles = []
    for window, part in parts_of(large, tiling.windows(*SIZE)):
        top = part[0] + 60 * (window.left // 100 % 2)  # neighbors disagree
        cut = [top, part[1], top + 20, part[3]]
        tiles.append((window, outputs_of(window, [numbers(cut)], [0.5], [1], rotated)))
    second = Tiling(150, 50).windows(*SIZE).index(Window(100, 100, 150, 150))
    window = tiles[second][0]
    tiles[second] = window, outputs_of(window, [numbers(small)], [0.9], [1], rotated)
    assert merging.merge(tiles, SIZE)[fields.NUM_DETECTIONS] > 3
    seen = [numbers(large), numbers(small)]
    tiles.append((whole, outputs_of(whole, seen, [0.6, 0.95], [1, 1], rotated)))
    merged = merging.merge(tiles, SIZE)
    np.testing.assert_allclose(merged[fields.DETECTION_SCORES], [0.9, 0.6], rtol=1e-6)
    found = in_image(merged) if rotated else merged[fields.DETECTION_BOXES] * [*SIZE, *SIZE]
    np.testing.assert_allclose(found[:, :4], [numbers(small)[:4], numbers(large)[:4]], atol=1e-6)


def test_only_tiles_that_overlap_are_compared(monkeypatch):
    windows = Tiling(100, 20).windows(100, 740)
    tiles = [
        (window, outputs_of(window, [[10, window.left, 30, window.left + 50]], [0.9], [1], False))
        for window in windows
    ]
    compared = []

    def remember(detections, rows, columns, first, second):
        compared.append((windows.index(first), windows.index(second)))
        return []

    monkeypatch.setattr(merging, '_match_parts', remember)
    merging.merge(tiles, (100, 740))
    assert len(windows) == 9
    assert compared == [(index, index + 1) for index in range(8)]


@pytest.mark.parametrize('seed', range(4))
def test_suppression_is_that_of_loops_over_all_pairs(seed):
    random = np.random.RandomState(seed)
    starts, sides = random.uniform(0, 100, [60, 2]), random.uniform(1, 40, [60, 2])
    boxes = np.concatenate([starts, starts + sides], axis=1)
    tiles = random.randint(0, 3, 60)

    def overlap(one, other):
        height, width = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
        shared = max(height, 0) * max(width, 0)
        areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
        return shared / (sum(areas) - shared)

    kept = []
    for index in range(60):
        others = (other for other in kept if tiles[other] != tiles[index])
        if all(overlap(boxes[other], boxes[index]) <= 0.3 for other in others):
            kept.append(index)
    remains = merging._remaining(boxes, boxes, tiles, 0.3)
    assert np.flatnonzero(remains).tolist() == kept and len(kept) < 60
