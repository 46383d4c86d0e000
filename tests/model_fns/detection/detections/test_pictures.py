from __future__ import annotations

import numpy as np
import pytest

from estimator_lib import errors
from estimator_lib.drawing import colors, visualization
from estimator_lib.task import Shown
from model_fns.detection import fields
from model_fns.detection.detections import pictures
from model_fns.structures.label_map import LabelMap
from protos import eval_pb2

LABEL_MAP = LabelMap.from_names(['cat', 'dog'])
GRAY = 100
QUARTER = [0.25, 0.25, 0.75, 0.75]


def drawer(label_map=LABEL_MAP, **options):
    return pictures.build_drawer(eval_pb2.EvalConfig(**options), label_map)


def raw_features(height=600, width=600):
    return {fields.IMAGE: np.full([height, width, 3], GRAY, np.uint8)}


def outputs(boxes=(QUARTER,), scores=(0.9,), classes=(1,), count=None, **more):
    return {
        fields.DETECTION_BOXES: np.array(boxes, np.float32),
        fields.DETECTION_SCORES: np.array(scores, np.float32),
        fields.DETECTION_CLASSES: np.array(classes, np.float32),
        fields.NUM_DETECTIONS: np.float32(len(boxes) if count is None else count),
        **more,
    }


def labels(boxes=(QUARTER,), classes=(0,), rows=4, **more):
    padded = np.zeros([rows, 4], np.float32)
    padded[: len(boxes)] = boxes
    hot = np.zeros([rows, 2], np.float32)
    hot[: len(boxes)] = np.eye(2)[list(classes)]
    return {
        fields.BOXES: padded,
        fields.CLASSES: hot,
        fields.NUM_BOXES: np.int32(len(boxes)),
        **more,
    }


def where(picture, color):
    """Find rows and columns of the smallest window with all pixels of a color; None without."""
    rows, columns = np.nonzero((picture == color).all(axis=-1))
    if not len(rows):
        return None
    return rows.min(), columns.min(), rows.max() + 1, columns.max() + 1


def tagged(text):
    """Draw a gray picture with the text of an object of class 1 on top of its box, a quarter."""
    picture = raw_features()[fields.IMAGE]
    with visualization.canvas(picture) as image:
        visualization.draw_tag(image, text, 150, 150, colors.class_color(1), scale=2)
    return picture


def test_a_box_is_drawn_in_the_color_of_its_class():
    picture = drawer(skip_labels=True, skip_scores=True).draw(raw_features(), outputs(classes=[2]))
    assert picture.shape == (600, 600, 3)
    assert picture.dtype == np.uint8
    assert where(picture, colors.class_color(2)) == (150, 150, 450, 450)
    assert where(picture, colors.class_color(1)) is None
    assert (picture[200:400, 200:400] == GRAY).all()


def test_the_features_are_left_alone():
    features = raw_features()
    drawer().draw(features, outputs())
    assert (features[fields.IMAGE] == GRAY).all()


@pytest.mark.parametrize(
    ('options', 'text'),
    [
        ({}, 'cat 90%'),
        ({'skip_scores': True}, 'cat'),
        ({'skip_labels': True}, '90%'),
    ],
)
def test_texts(options, text):
    picture = drawer(**options).draw(raw_features(), outputs())
    np.testing.assert_array_equal(picture[:150], tagged(text)[:150])


@pytest.mark.parametrize('size', [(16, 24), (200, 300), (1200, 900), (3000, 4000)])
def test_names_and_scores_at_every_size(size):
    features = {fields.IMAGE: np.full([*size, 3], GRAY, np.uint8)}
    box = outputs(boxes=[[0.4, 0.4, 0.5, 0.5]])
    named = drawer().draw(features, box)
    bare = drawer(skip_labels=True, skip_scores=True).draw(features, box)
    rows = np.flatnonzero((named != bare).any((1, 2)))
    assert rows.size and np.ptp(rows) >= 9  # letters that can be read


def test_only_chosen_classes_are_drawn():
    shown = drawer(skip_labels=True, skip_scores=True).showing(Shown(class_indices=(0,)))
    picture = shown.draw(raw_features(), outputs(classes=[2]))
    assert where(picture, colors.class_color(2)) is None


@pytest.mark.parametrize('side, line', [(600, 2), (1920, 5)])
def test_lines_and_texts_do_not_depend_on_the_number_of_objects(side, line):
    """Where it passes a number from frame to frame, a video would flicker."""
    color = colors.class_color(1)

    def drawn(count):
        many = outputs([QUARTER] * count, [0.9] * count, [1] * count)
        return drawer(max_num_boxes_to_visualize=50).draw(raw_features(side, side), many)

    for picture in (drawn(1), drawn(40)):
        left = side // 4
        assert (picture[side // 2, left : left + line] == color).all()
        assert (picture[side // 2, left + line] == GRAY).all()
        assert (picture[left - 3, left : left + 10] == color).all()  # the tag
    np.testing.assert_array_equal(drawn(15), drawn(16))


def test_lines_and_letters_of_small_objects_are_smaller():
    boxes = np.array([[0, 0, 10, 5], [0, 0, 200, 10], [0, 0, 10, 1000]], np.float32)
    assert pictures._scales(boxes, 5) == [2.0, 2.5, 5.0]
    assert pictures._scales(boxes[:, [0, 1, 0, 3, 2, 3, 2, 1]], 5) == [2.0, 2.5, 5.0]
    assert pictures._scales(np.zeros([0, 4]), 5) == []


def test_a_legend_names_the_classes_of_a_panel():
    found = outputs([QUARTER] * 3, [0.9] * 3, [2, 1, 2])
    picture = drawer(skip_scores=True).draw(raw_features(), found, labels(classes=[0]))
    caption = picture[600:]
    for color, columns in ((1, slice(0, 600)), (2, slice(0, 600)), (1, slice(608, None))):
        assert where(caption[:, columns], colors.class_color(color)) is not None
    assert where(caption[:, 608:], colors.class_color(2)) is None
    # The most frequent class comes first.
    left = [where(caption[:, :600], colors.class_color(index))[1] for index in (2, 1)]
    assert left == sorted(left)


def test_pictures_of_huge_images_are_bounded(monkeypatch):
    monkeypatch.setattr(visualization, '_MOST_PIXELS', 700 * 700)
    assert drawer().draw(raw_features(1400, 1400), outputs()).shape == (700, 700, 3)


def test_no_text():
    picture = drawer(skip_labels=True, skip_scores=True).draw(raw_features(), outputs())
    assert (picture[:150] == GRAY).all()


def test_a_class_without_a_name_shows_its_id():
    picture = drawer(None).draw(raw_features(), outputs(classes=[1]))
    np.testing.assert_array_equal(picture[:150], tagged('1 90%')[:150])


def test_only_the_best_detections_above_the_threshold():
    boxes = [[0.1 * row, 0.0, 0.1 * row + 0.05, 0.1] for row in range(5)]
    scores = [0.5, 0.9, 0.49, 0.8, 0.99]
    plain = {'skip_labels': True, 'skip_scores': True}

    def drawn(count=None, **options):
        picture = drawer(**plain, **options).draw(
            raw_features(), outputs(boxes, scores, [1] * 5, count)
        )
        tops = [60 * row for row in range(5)]
        return [row for row in range(5) if tuple(picture[tops[row], 0]) == colors.class_color(1)]

    assert drawn() == [0, 1, 3, 4]
    assert drawn(min_score_threshold=0.85) == [1, 4]
    assert drawn(max_num_boxes_to_visualize=3) == [1, 3, 4]
    assert drawn(count=2) == [0, 1]


def test_groundtruth_is_on_the_right():
    plain = drawer(skip_labels=True, skip_scores=True)
    none = outputs(np.zeros([0, 4]), [], [])
    picture = plain.draw(raw_features(), none, labels(classes=[1]))
    assert picture.shape[1] == 600 + 8 + 600
    assert picture.shape[0] > 600  # captions
    assert where(picture, colors.class_color(2)) == (150, 608 + 150, 450, 608 + 450)


def test_boxes_of_a_padded_input():
    # The image is the upper left 150 x 300 of an input of 300 x 300, and was 400 x 800 before.
    features = {
        fields.IMAGE: np.full([300, 300, 3], float(GRAY), np.float32),
        fields.TRUE_IMAGE_SHAPE: np.array([150, 300, 3], np.int32),
        fields.ORIGINAL_SHAPE: np.array([400, 800], np.int32),
    }
    plain = drawer(skip_labels=True, skip_scores=True)
    truth = labels([[0.25, 0.25, 0.75, 0.75]], [1])
    picture = plain.draw(features, outputs(), truth)
    assert where(picture, colors.class_color(1)) == (75, 150, 225, 450)
    assert where(picture, colors.class_color(2)) == (75, 608 + 150, 225, 608 + 450)
    assert tuple(picture[100, 300]) == (GRAY,) * 3


def test_groundtruth_among_the_detections():
    options = {'skip_labels': True, 'skip_scores': True}
    over = drawer(
        **options,
        visualize_groundtruth_boxes=True,
        groundtruth_box_visualization_color='Chartreuse',
    )
    truth = labels([[0.0, 0.0, 0.5, 0.5]])
    picture = over.draw(raw_features(), outputs(), truth)
    assert where(picture, colors.named('chartreuse')) == (0, 0, 300, 300)
    assert where(drawer(**options).draw(raw_features(), outputs(), truth)[:600], (0, 0, 0)) is None


def test_an_unknown_color_names_the_nearest():
    with pytest.raises(
        errors.ConfigError, match=r"groundtruth_box_visualization_color.*'chartruse'.*chartreuse"
    ):
        drawer(
            visualize_groundtruth_boxes=True,
            groundtruth_box_visualization_color='chartruse',
        )


def test_flags_are_beside_the_name():
    options = {'skip_scores': True}
    none = outputs(np.zeros([0, 4]), [], [])
    flags = {fields.IS_CROWD: np.array([True, False, False, False])}
    picture = drawer(**options).draw(raw_features(), none, labels(**flags))
    np.testing.assert_array_equal(picture[:150, 608:], tagged('cat crowd')[:150])


@pytest.mark.parametrize('shape', [(32, 32), (1, 1), (20, 200), (1, 900)])
def test_small_images_are_enlarged(shape):
    picture = drawer().draw(raw_features(*shape), outputs())
    assert max(picture.shape) >= 600
    assert picture.shape[0] == max(1, round(shape[0] * picture.shape[1] / shape[1]))


def test_large_images_stay():
    assert drawer().draw(raw_features(700, 900), outputs()).shape == (700, 900, 3)


def test_grayscale_inputs():
    features = {fields.IMAGE: np.full([600, 600, 1], 300.0, np.float32)}
    picture = drawer().draw(features, outputs(np.zeros([0, 4]), [], []))
    assert (picture == 255).all()


def test_masks_of_detections_are_placed_in_their_boxes():
    mask = np.zeros([1, 2, 2], np.float32)
    mask[0, 0, 1] = 0.9  # the upper right quarter of the box
    more = {fields.DETECTION_MASKS: mask}
    plain = drawer(skip_labels=True, skip_scores=True)
    picture = plain.draw(raw_features(), outputs([[0.0, 0.0, 0.5, 0.5]], **more))
    tinted = np.rint(0.6 * GRAY + 0.4 * np.array(colors.class_color(1)))
    # The middles of its cells are at the corners of the box, between which it falls from 0.9 to 0.
    # The box's line is over two pixels at each side. In row 2 there is more than a half from
    # 0.9 x (1 - 4 / 599) > 0.5 on, that is pixel 168; in column 297 as far as row 131.
    assert where(picture, tinted) == (2, 168, 132, 298)


def test_masks_of_groundtruth():
    mask = np.zeros([4, 10, 10], np.uint8)
    mask[0, 4:6, :] = 1
    plain = drawer(skip_labels=True, skip_scores=True)
    features = {**raw_features(), fields.TRUE_IMAGE_SHAPE: np.array([600, 600, 3])}
    none = outputs(np.zeros([0, 4]), [], [])
    picture = plain.draw(features, none, labels(**{fields.MASKS: mask}))
    tinted = np.rint(0.6 * GRAY + 0.4 * np.array(colors.class_color(1)))
    assert where(picture, tinted) == (240, 608, 360, 608 + 600)
    # A batch has as many masks as its fullest image has objects, and boxes stand for missing ones.
    weights = np.array([0.0, 0.0, 0.0, 0.0])
    more = {fields.MASKS: mask[:3], fields.MASK_WEIGHTS: weights}
    picture = plain.draw(features, none, labels(**more))
    assert where(picture, tinted) is None


def test_keypoints_and_the_lines_between_them():
    points = np.array([[[0.25, 0.1], [0.25, 0.9], [np.nan, np.nan]]], np.float32)
    more = {fields.DETECTION_KEYPOINTS: points}
    edges = [eval_pb2.KeypointEdge(start=0, end=1), eval_pb2.KeypointEdge(start=1, end=2)]
    plain = {'skip_labels': True, 'skip_scores': True}
    tiny = outputs([[0.9, 0.9, 0.9, 0.9]], **more)

    def row(**options):
        picture = drawer(**plain, **options).draw(raw_features(), tiny)
        return (picture[150] == colors.class_color(1)).all(axis=-1)

    assert row()[60] and row()[540] and not row()[300]
    assert row(keypoint_edge=edges)[60:541].all()


def test_boxes_that_reach_over_the_border():
    plain = drawer(skip_scores=True)
    picture = plain.draw(
        raw_features(), outputs([[-0.5, -0.5, 1.5, 0.5], [0.9, 0.98, 1, 2]], [1, 1], [1, 2])
    )
    assert picture.shape == (600, 600, 3)
    assert tuple(picture[300, 299]) == colors.class_color(1)
    # The text of the first stays inside.
    assert tuple(picture[0, 0]) == colors.class_color(1)


def test_targets_alone_are_drawn_in_the_input_as_it_is():
    plain = drawer(skip_labels=True)
    # The original was twice as wide as high; the network gets a square, whose lower half is empty.
    features = {
        **raw_features(600, 600),
        fields.ORIGINAL_SHAPE: np.array([300, 600]),
        fields.TRUE_IMAGE_SHAPE: np.array([600, 600, 3]),
    }
    picture = plain.draw(features, {}, labels(classes=[1]))
    assert picture.shape[1] == 600
    # A quarter of 600; with the original's aspect ratio it would begin at row 75.
    assert where(picture[:600], colors.class_color(2))[:2] == (150, 150)


@pytest.mark.parametrize('rotated', [False, True])
def test_proposals_are_between_detections_and_groundtruth(rotated):
    half, none = [0.0, 0.0, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]
    proposals = np.array([half, [0.5, 0.5, 1.0, 1.0], none, none], np.float32)
    if rotated:  # their corners
        proposals = proposals[:, [0, 1, 0, 3, 2, 3, 2, 1]]
    found = outputs(**{fields.SHOWN_PROPOSALS: proposals})
    plain = drawer().draw(raw_features(), outputs(), labels())
    picture = drawer().draw(raw_features(), found, labels())
    assert picture.shape[0] == plain.shape[0]
    width = picture.shape[1] // 3
    yellow = (255, 255, 0)
    assert where(picture[:, :width], yellow) is None
    assert where(picture[:, -width:], yellow) is None
    top, left, bottom, right = where(picture[:, width:-width], yellow)
    # The two touch at the middle, and reach to opposite corners.
    assert bottom - top >= 590 and right - left >= 590
    # Alone, without groundtruth, detections are as they were.
    alone = drawer().draw(raw_features(), found)
    np.testing.assert_array_equal(alone, drawer().draw(raw_features(), outputs()))


def test_rotated_boxes_are_polygons_with_a_dot_where_they_look_to():
    # A square on its corner; its leading side is the one at the lower right.
    corners = [[0.2, 0.5, 0.5, 0.8, 0.8, 0.5, 0.5, 0.2]]
    found = outputs(boxes=[[0.5, 0.5, 0.4, 0.4, 0.8]], **{fields.DETECTION_CORNERS: corners})
    found[fields.DETECTION_CORNERS] = np.array(corners, np.float32)
    picture = drawer(skip_labels=True, skip_scores=True).draw(raw_features(), found)
    color = colors.class_color(1)
    top, left, bottom, right = where(picture, color)
    assert abs(top - 120) < 5 and abs(left - 120) < 5
    assert abs(bottom - 480) < 5 and abs(right - 480) < 5
    # The middles of its sides are drawn; an axis-aligned box would have its corners there.
    drawn = (picture == color).all(axis=-1)
    for row, column in ((210, 390), (210, 210), (390, 210)):
        assert drawn[row - 3 : row + 4, column - 3 : column + 4].any()
    assert not drawn[:200, :200].any()
    around = drawn[380:401, 380:401].sum(), drawn[200:221, 380:401].sum()
    assert around[0] > 1.5 * around[1]


def test_rotated_groundtruth():
    truth = labels()
    truth[fields.BOXES] = np.array([[0.2, 0.5, 0.5, 0.8, 0.8, 0.5, 0.5, 0.2]] * 4, np.float32)
    picture = drawer().draw(raw_features(), {}, truth)
    _, left, bottom, right = where(picture[:600], colors.class_color(1))
    assert abs(left - 120) < 5 and abs(right - 480) < 5 and abs(bottom - 480) < 5
