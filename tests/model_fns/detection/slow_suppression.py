"""Suppression by its definition, one image, class and box after the other, in NumPy."""

import numpy as np


def iou(box, others):
    """Compute the IoU of a box [4] with others: float32 [n]; 0 for boxes without an area."""
    low = np.minimum(box[:2], box[2:]), np.minimum(others[:, :2], others[:, 2:])
    high = np.maximum(box[:2], box[2:]), np.maximum(others[:, :2], others[:, 2:])
    area = np.prod(high[0] - low[0], dtype=np.float32)
    areas = np.prod(high[1] - low[1], axis=1, dtype=np.float32)
    sides = np.minimum(high[0], high[1]) - np.maximum(low[0], low[1])
    shared = np.prod(np.maximum(sides, np.float32(0)), axis=1, dtype=np.float32)
    with np.errstate(divide='ignore', invalid='ignore'):
        overlaps = shared / (area + areas - shared)
    return np.where((area > 0) & (areas > 0), overlaps, 0)


def greedy(boxes, scores, most, iou_threshold, score_threshold=-np.inf, sigma=0.0):
    """Return the surviving rows, best first, and their scores.

    Args:
        boxes: [n, 4].
        scores: [n].
        most: how many survive at most.
        iou_threshold: a box that overlaps a survivor more than this does not survive.
        score_threshold: nor does one whose score is not above it.
        sigma: width of the Gaussian by which overlaps cost score; 0: they do not.
    """
    scores = np.array(scores, np.float32)
    scores[~(scores > score_threshold)] = -np.inf
    kept, kept_scores = [], []
    while len(kept) < most and np.max(scores, initial=-np.inf) > -np.inf:
        row = int(np.argmax(scores))
        kept.append(row)
        kept_scores.append(scores[row])
        overlaps = iou(boxes[row], boxes)
        if sigma:
            scores = scores * np.exp(np.float32(-0.5 / sigma) * overlaps * overlaps)
        scores[overlaps > iou_threshold] = -np.inf
        scores[~(scores > score_threshold)] = -np.inf
        scores[row] = -np.inf
    return kept, kept_scores


def detections(boxes, scores, rules, window=None):
    """Compute the detections of one image: rows of (score, class, anchor, box), best first.

    Args:
        boxes: [A, q, 4].
        scores: [A, C].
        rules: as of `suppression`.
        window: [4] or None.
    """
    if rules.class_agnostic:
        found = _class_agnostic(boxes, scores, rules)
    else:
        found = []
        for label in range(scores.shape[1]):
            of_label = boxes[:, min(label, boxes.shape[1] - 1)]
            rows, kept = greedy(
                of_label,
                scores[:, label],
                rules.max_per_class,
                rules.iou_threshold,
                rules.score_threshold,
                rules.soft_sigma,
            )
            found += [(score, label, row, of_label[row]) for row, score in zip(rows, kept)]
    found.sort(key=lambda one: -one[0])
    if window is not None:
        if not rules.drop_empty:
            found = found[: rules.max_total]
        found = _inside(found, window, rules)
    if rules.max_classes_per_box > 1:
        found = _with_further_classes(found, scores, rules)
    return found[: rules.max_total]


def _class_agnostic(boxes, scores, rules):
    labels = np.argmax(scores, axis=1)
    of_labels = boxes[np.arange(len(labels)), np.minimum(labels, boxes.shape[1] - 1)]
    rows, kept = greedy(
        of_labels,
        scores.max(axis=1),
        rules.max_total,
        rules.iou_threshold,
        rules.score_threshold,
        rules.soft_sigma,
    )
    return [(score, labels[row], row, of_labels[row]) for row, score in zip(rows, kept)]


def _inside(found, window, rules):
    inside = []
    for score, label, row, box in found:
        low, high = np.tile(window[:2], 2), np.tile(window[2:], 2)
        box = np.clip(box, low, high)
        if rules.drop_empty and not (box[2] - box[0]) * (box[3] - box[1]) > 0:
            continue
        if rules.change_frame:
            box = (box - low) / (high - low)
        inside.append((score, label, row, box))
    return inside


def _with_further_classes(found, scores, rules):
    more = []
    for _, _, row, box in found:
        for label in np.argsort(-scores[row], kind='stable')[: rules.max_classes_per_box]:
            if scores[row, label] > rules.score_threshold:
                more.append((scores[row, label], label, row, box))
    return sorted(more, key=lambda one: -one[0])
