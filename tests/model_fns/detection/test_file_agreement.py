"""Detections of two runs, compared."""

import numpy as np
import pytest

from model_fns.detection import fields
from model_fns.detection.deployment import file_agreement


def found_of(*rows):
    """Build outputs of a file with rows of (score, class, box)."""
    return {
        fields.DETECTION_SCORES: np.array([[row[0] for row in rows]]),
        fields.DETECTION_CLASSES: np.array([[row[1] for row in rows]]),
        fields.DETECTION_BOXES: np.array([[row[2] for row in rows]]),
        fields.NUM_DETECTIONS: np.array([len(rows)]),
    }


def test_detections_agree_when_they_are_found_again():
    box, moved, other = [0.0, 0.0, 0.5, 0.5], [0.0, 0.1, 0.5, 0.6], [0.5, 0.5, 1.0, 1.0]
    expected = [found_of((0.9, 0, box), (0.8, 1, other), (0.2, 1, box))]
    # Others in order, and one that does not count.
    swapped = [found_of((0.88, 1, other), (0.85, 0, box), (0.1, 0, other))]
    parts = file_agreement.compare(expected, swapped, exact=False)
    assert parts == {'detections from 0.3 on': 1.0, 'scores in order': 1.0}
    # 0.4 of 0.6 wide: an IoU of 2/3.
    near = [found_of((0.9, 0, moved), (0.8, 1, other), (0.2, 1, box))]
    assert file_agreement.compare(expected, near, exact=False)['detections from 0.3 on'] == 1.0
    assert file_agreement.compare(expected, near, exact=True)['detections from 0.3 on'] == 0.5
    wrong = [found_of((0.9, 1, box), (0.4, 1, other), (0.2, 1, box))]
    assert file_agreement.compare(expected, wrong, exact=False) == {
        'detections from 0.3 on': 0.5,
        'scores in order': pytest.approx(2 / 3),
    }
    # Where all are as good, others may have taken the places of those that there was no room for.
    alike, others = (
        [found_of((0.5, 0, box), (0.48, 0, other))],
        [found_of((0.5, 1, moved), (0.49, 1, box))],
    )
    parts = file_agreement.compare(alike, others, exact=False)
    assert parts['detections from 0.3 on'] == 1.0
    others[0][fields.NUM_DETECTIONS] = np.array([0])
    parts = file_agreement.compare(alike, others, exact=False)
    assert parts['detections from 0.3 on'] == 0.0
    differences = file_agreement.largest_differences(expected, wrong)
    assert differences == {'scores in order': pytest.approx(0.4)}
    # Of a network that finds nothing yet, the scores alone.
    nothing = [found_of((0.2, 0, box))]
    assert file_agreement.compare(nothing, nothing, exact=True) == {'scores in order': 1.0}


def test_boxes_and_scores_are_compared_to_a_ten_thousandth():
    box = np.array([0.1, 0.2, 0.5, 0.6])
    expected = [found_of((0.9, 0, box), (0.5, 0, box))]
    for change, part in ((5e-5, 1.0), (5e-4, 0.5)):
        moved = [found_of((0.9, 0, box + change), (0.5, 0, box + 0.3))]
        moved[0][fields.DETECTION_BOXES][0, 1] = [0.6, 0.6, 0.9, 0.9]
        # The second one has been replaced, as there is no more room.
        parts = file_agreement.compare(expected, moved, exact=True)
        assert parts['detections from 0.3 on'] == part
        scores = [found_of((0.9 + change, 0, box), (0.5, 0, box))]
        parts = file_agreement.compare(expected, scores, exact=True)
        assert parts['scores in order'] == part


def with_raw(**values):
    """Build outputs without detections, with raw predictions of an image."""
    raw = {f'intermediate/{name}': np.array([value]) for name, value in values.items()}
    return [{**found_of((0.0, 0, [0.0] * 4)), **raw}]


def test_raw_predictions_are_compared_number_by_number():
    expected = with_raw(box_encodings=[[1.0, 2.0]], class_predictions=[[0.5], [0.25]])
    found = with_raw(box_encodings=[[1.00005, 2.1]], class_predictions=[[0.25], [0.5]])
    assert file_agreement.compare(expected, found, exact=True) == {
        'scores in order': 1.0,
        'box_encodings': 0.5,
        'class_predictions': 0.0,
    }
    differences = file_agreement.largest_differences(expected, found)
    assert differences['box_encodings'] == pytest.approx(0.1)


def test_proposals_may_have_another_order():
    boxes, codes = [[0.0, 4.0], [1.0, 5.0], [2.0, 6.0]], [[0.1], [0.2], [0.3]]
    expected = with_raw(proposal_boxes=boxes, refined_box_encodings=codes, rpn=[1.0])
    found = with_raw(
        proposal_boxes=boxes[::-1], refined_box_encodings=[[0.3], [0.25], [0.1]], rpn=[1.0]
    )
    parts = file_agreement.compare(expected, found, exact=True)
    assert parts == {'scores in order': 1.0, 'proposals': pytest.approx(2 / 3), 'rpn': 1.0}
    # One of two with equal scores has the place of the other: what is computed of it says nothing.
    other = with_raw(
        proposal_boxes=[[0.0, 4.0], [1.0, 5.0], [9.0, 9.5]],
        refined_box_encodings=[[0.1], [0.2], [0.7]],
        rpn=[1.0],
    )
    assert file_agreement.compare(expected, other, exact=True)['proposals'] == 1.0
    # It is another one by mistake, where scores or most of the boxes are others.
    other[0]['intermediate/rpn'] = np.array([2.0])
    parts = file_agreement.compare(expected, other, exact=True)
    assert parts['proposals'] == pytest.approx(2 / 3) and parts['rpn'] == 0.0
    lost = with_raw(
        proposal_boxes=[[0.0, 4.0], [7.0, 8.0], [9.0, 9.5]],
        refined_box_encodings=[[0.1], [0.2], [0.7]],
        rpn=[1.0],
    )
    parts = file_agreement.compare(expected, lost, exact=True)
    assert parts['proposals'] == pytest.approx(1 / 3)
    # With other arithmetic others are chosen.
    assert 'proposals' not in file_agreement.compare(expected, found, exact=False)


def test_rotated_boxes_agree_by_their_corners():
    square = [0.0, 0.0, 0.0, 0.4, 0.4, 0.4, 0.4, 0.0]
    turned = square[2:] + square[:2]
    half = [0.0, 0.0, 0.0, 0.4, 0.2, 0.4, 0.2, 0.0]

    def corners_of(box):
        outputs = found_of((0.9, 0, box), (0.1, 0, box))
        outputs[fields.DETECTION_CORNERS] = outputs.pop(fields.DETECTION_BOXES)
        return [outputs]

    for other, part in ((turned, 1.0), (half, 0.0)):
        parts = file_agreement.compare(corners_of(square), corners_of(other), exact=True)
        assert parts['detections from 0.3 on'] == part


def test_masks_and_keypoints_of_the_same_detections_agree():
    box, other = [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]
    expected = found_of((0.9, 0, box), (0.899, 0, other), (0.1, 0, box))
    expected[fields.DETECTION_MASKS] = np.array([[[[0.0, 0.2]], [[0.4, 0.6]], [[1.0, 1.0]]]])
    expected[fields.DETECTION_KEYPOINTS] = np.array([[[[0.1, 0.1]], [[0.9, 0.9]], [[0.0, 0.0]]]])
    swapped = {name: np.take(value, [1, 0, 2], 1) if value.ndim > 1 else value
               for name, value in expected.items()}  # fmt: skip
    parts = file_agreement.compare([expected], [swapped], exact=True)
    assert parts[fields.DETECTION_MASKS] == parts[fields.DETECTION_KEYPOINTS] == 1.0
    # One of four numbers of the masks that count; the third detection does not.
    swapped[fields.DETECTION_MASKS] = np.array([[[[0.4, 0.6]], [[0.0, 0.5]], [[0.0, 0.0]]]])
    parts = file_agreement.compare([expected], [swapped], exact=True)
    assert parts[fields.DETECTION_MASKS] == 0.75


def test_boxes_without_area_agree_where_they_are_in_the_same_place():
    flat, other = [0.2, 0.3, 0.2, 0.6], [0.2, 0.4, 0.2, 0.6]
    expected = [found_of((0.9, 0, flat), (0.1, 0, flat))]
    for box, part in ((flat, 1.0), (other, 0.0)):
        found = [found_of((0.9, 0, box), (0.1, 0, box))]
        parts = file_agreement.compare(expected, found, exact=True)
        assert parts['detections from 0.3 on'] == part


def served(order, **changes):
    """Build outputs of a server: two detections, of raw boxes that come in some order."""
    boxes = np.array([[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0]])
    raw = {fields.RAW_DETECTION_BOXES: boxes, fields.RAW_DETECTION_SCORES: np.eye(3)}
    first = [one for one in order if one < 2]
    detections = {
        fields.DETECTION_BOXES: boxes[:2][first],
        fields.DETECTION_CLASSES: np.array([1.0, 2.0])[first],
        fields.DETECTION_ANCHOR_INDICES: np.array([order.index(one) for one in first]),
    }
    rows = {**{name: value[order] for name, value in raw.items()}, **detections, **changes}
    return {
        fields.NUM_DETECTIONS: np.array([2.0]),
        **{name: np.asarray(value)[np.newaxis] for name, value in rows.items()},
    }


def test_rows_of_servers_may_change_places():
    expected = [served([0, 1, 2])]
    parts = file_agreement.compare_served(expected, [served([1, 2, 0])])
    assert set(parts.values()) == {1.0} and len(parts) == 6
    other = served([1, 2, 0], **{fields.DETECTION_CLASSES: [1.0, 1.0]})
    parts = file_agreement.compare_served(expected, [other])
    # One detection has its class still; the raw boxes have changed places only.
    assert parts[fields.DETECTION_CLASSES] == parts[fields.DETECTION_BOXES] == 0.5
    assert parts[fields.RAW_DETECTION_BOXES] == 1.0
    # Where the raw boxes have their order, a number names one of them.
    swapped = {fields.DETECTION_ANCHOR_INDICES: [1, 0]}
    parts = file_agreement.compare_served(expected, [served([0, 1, 2], **swapped)])
    assert parts[fields.DETECTION_ANCHOR_INDICES] == 0.0 and parts[fields.DETECTION_BOXES] == 1.0
    fewer = {**other, fields.DETECTION_BOXES: other[fields.DETECTION_BOXES][:, :1]}
    assert file_agreement.compare_served(expected, [fewer])[fields.DETECTION_BOXES] == 0.0
