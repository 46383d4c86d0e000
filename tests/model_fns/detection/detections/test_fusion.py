"""Weighted boxes fusion: by hand, and against a slow computation box by box."""

import numpy as np
import tensorflow as tf

from model_fns.detection import fields
from model_fns.detection.detections import fusion
from tests.model_fns.detection.slow_boxes import iou


def slowly_fused(boxes, scores, classes, counts, room):
    """Fuse the detections of one image: lists of clusters, as the paper describes it."""
    views = len(boxes)
    rows = [
        (boxes[view][row], scores[view][row], classes[view][row])
        for view in range(views)
        for row in range(int(counts[view]))
    ]
    clusters = []
    for box, score, kind in sorted(rows, key=lambda row: -row[1]):
        best, best_iou = None, 0.55
        for cluster in clusters:
            if cluster['kind'] == kind and iou(box, cluster['fused']) > best_iou:
                best, best_iou = cluster, iou(box, cluster['fused'])
        if best is None:
            best = {'kind': kind, 'boxes': [], 'scores': []}
            clusters.append(best)
        best['boxes'].append(box)
        best['scores'].append(score)
        best['fused'] = np.average(best['boxes'], axis=0, weights=best['scores'])
    for cluster in clusters:
        size = len(cluster['boxes'])
        cluster['score'] = np.mean(cluster['scores']) * min(size, views) / views
    return sorted(clusters, key=lambda cluster: -cluster['score'])[:room]


def run(boxes, scores, classes, counts):
    """Fuse in a graph whose batch size is not known."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = [np.asarray(value, np.float32) for value in (boxes, scores, classes, counts)]
        inputs = [tf.compat.v1.placeholder(tf.float32, [None, *one.shape[1:]]) for one in values]
        outputs = fusion.fuse(*inputs)
        rows = values[0].shape[2]
        assert outputs[fields.DETECTION_BOXES].shape.as_list() == [None, rows, 4]
        assert outputs[fields.DETECTION_SCORES].shape.as_list() == [None, rows]
        found = session.run(outputs, dict(zip(inputs, values)))
    return [
        found[name]
        for name in (
            fields.DETECTION_BOXES,
            fields.DETECTION_SCORES,
            fields.DETECTION_CLASSES,
            fields.NUM_DETECTIONS,
        )
    ]


def test_three_views_by_hand():
    box, near, far = [0, 0, 0.4, 0.4], [0, 0, 0.4, 0.44], [0.5, 0.5, 0.9, 0.9]
    boxes = [[[box, far], [near, far], [far, box]]]
    scores = [[[0.9, 0.6], [0.3, 0.3], [0.8, 0.7]]]
    # The third view finds `far` with another class, and its second row does not count.
    classes = [[[0, 1], [0, 1], [0, 0]]]
    fused = run(boxes, scores, classes, [[2, 2, 1]])
    # 0.9 and 0.3 of `box` and `near`: two of three views, (0.9 + 0.3) / 2 * 2 / 3.
    # 0.8 of `far` as class 0: one view, 0.8 / 3. As class 1: (0.6 + 0.3) / 2 * 2 / 3 = 0.3.
    np.testing.assert_allclose(fused[0], [[[0, 0, 0.4, 0.41], far]], atol=1e-6)
    np.testing.assert_allclose(fused[1], [[0.4, 0.3]], atol=1e-6)
    np.testing.assert_array_equal(fused[2], [[0, 1]])
    np.testing.assert_array_equal(fused[3], [2])


def test_two_boxes_of_a_view_in_a_cluster_count_as_at_most_all_views():
    box = [0, 0, 0.5, 0.5]
    fused = run([[[box] * 3, [box] * 3]], [[[0.8, 0.6, 0.4]] * 2], [[[0] * 3] * 2], [[3, 3]])
    np.testing.assert_allclose(fused[1], [[0.6, 0, 0]], atol=1e-6)
    np.testing.assert_array_equal(fused[3], [1])
    np.testing.assert_array_equal(fused[0][0, 1:], 0)


def test_images_without_detections():
    fused = run(np.zeros([2, 3, 4, 4]), np.zeros([2, 3, 4]), np.zeros([2, 3, 4]), np.zeros([2, 3]))
    assert not any(np.any(value) for value in fused)
    assert [value.shape for value in fused] == [(2, 4, 4), (2, 4), (2, 4), (2,)]


def test_random_scenes_against_the_slow_fusion():
    random = np.random.RandomState(1)
    images, views, rows = 4, 3, 12
    # Views see the same objects, with errors.
    corners = random.uniform(0, 0.6, [images, 1, rows, 2])
    objects = np.concatenate([corners, corners + random.uniform(0.1, 0.4, corners.shape)], -1)
    boxes = objects + random.normal(0, 0.015, [images, views, rows, 4])
    scores = random.uniform(0.01, 1, [images, views, rows])
    classes = random.randint(0, 2, [images, 1, rows]) + np.zeros([1, views, 1])
    classes[:, 0, 0] = 2
    counts = random.randint(5, rows + 1, [images, views])
    boxes, scores = boxes.astype(np.float32), scores.astype(np.float32)
    found = run(boxes, scores, classes, counts)
    joined = 0
    for image, (fused, values, kinds, count) in enumerate(zip(*found)):
        slow = slowly_fused(boxes[image], scores[image], classes[image], counts[image], rows)
        assert count == len(slow)
        joined += sum(len(cluster['boxes']) > 2 for cluster in slow)
        np.testing.assert_allclose(
            fused[: len(slow)], [one['fused'] for one in slow], atol=1e-5, err_msg=str(image)
        )
        np.testing.assert_allclose(values[: len(slow)], [one['score'] for one in slow], atol=1e-6)
        np.testing.assert_array_equal(kinds[: len(slow)], [one['kind'] for one in slow])
        assert not np.any(fused[len(slow) :]) and not np.any(values[len(slow) :])
    assert joined > images
