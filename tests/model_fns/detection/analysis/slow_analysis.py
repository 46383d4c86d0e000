"""Errors, confusions and rates of detections by loops over single boxes, for tests.

Nothing here uses the code under test. An image is (objects, detections): objects are (box, class
id), detections (box, class id, score); boxes are ymin, xmin, ymax, xmax.
"""

from __future__ import annotations

import numpy as np

from tests.model_fns.detection.slow_boxes import iou


def match(objects, detections):
    """Give each detection the best free object of its class, by descending score; {d: o}."""
    taken = {}
    for index in sorted(range(len(detections)), key=lambda index: -detections[index][2]):
        box, class_id, _ = detections[index]
        best = None
        for number, (other, other_class) in enumerate(objects):
            overlap = iou(box, other)
            if number in taken.values() or other_class != class_id or overlap < 0.5:
                continue
            if best is None or overlap > best[0]:
                best = overlap, number
        if best:
            taken[index] = best[1]
    return taken


def errors(objects, detections):
    """Return {detection: (kind, object or None)} of the false ones, and the missed objects."""
    taken, kinds, covered = match(objects, detections), {}, set()
    for index, (box, class_id, _) in enumerate(detections):
        if index in taken:
            continue
        overlaps = [(iou(box, other), number) for number, (other, _) in enumerate(objects)]
        same = [pair for pair in overlaps if objects[pair[1]][1] == class_id]
        other = [pair for pair in overlaps if objects[pair[1]][1] != class_id]
        same = max(same, key=lambda pair: pair[0], default=(0.0, None))
        other = max(other, key=lambda pair: pair[0], default=(0.0, None))
        if 0.1 <= same[0] < 0.5:
            kinds[index] = 'localization', same[1]
            covered.add(same[1])
        elif other[0] >= 0.5:
            kinds[index] = 'classification', other[1]
            covered.add(other[1])
        elif same[0] >= 0.5:
            kinds[index] = 'duplicate', same[1]
        elif max(same[0], other[0]) < 0.1:
            kinds[index] = 'background', None
        else:
            kinds[index] = 'both', other[1]
    missed = set(range(len(objects))) - set(taken.values()) - covered
    return kinds, missed


def average_precision(rows, count):
    """Compute AP over 101 recalls of (score, found) rows."""
    rows = sorted(rows, key=lambda row: -row[0])
    points, true = [], 0
    for number, (_, found) in enumerate(rows, 1):
        true += found
        points.append((true / count, true / number))
    values = []
    # A recall of 7/25 may or may not reach 0.28: the published recalls are those of linspace.
    for least in np.linspace(0.0, 1.0, 101):
        values.append(max((p for r, p in points if r >= least), default=0.0))
    return sum(values) / 101


def mean_average_precision(rows, counts):
    values = []
    for class_id, count in counts.items():
        own = [row[1:] for row in rows if row[0] == class_id]
        if count or own:  # with detections alone it is 0
            values.append(average_precision(own, count) if count else 0.0)
    return sum(values) / len(values) if values else 0.0


def gains(images, num_classes):
    """Return the change of mean AP at 0.5 by fixing each type of error alone."""

    def rows_and_counts(fixing):
        rows, counts = [], dict.fromkeys(range(1, num_classes + 1), 0)
        for objects, detections in images:
            for _, class_id in objects:
                counts[class_id] += 1
            taken, (kinds, missed) = match(objects, detections), errors(objects, detections)
            if fixing == 'missed':
                for number in missed:
                    counts[objects[number][1]] -= 1
            # Which error would get an object: the best among both types, unless it is found.
            chosen = {}
            for index, (kind, number) in kinds.items():
                if kind in ('localization', 'classification') and number not in taken.values():
                    best = chosen.get(number)
                    if best is None or detections[index][2] > detections[best][2]:
                        chosen[number] = index
            for index, (_, class_id, score) in enumerate(detections):
                kind, number = kinds.get(index, (None, None))
                if kind is None or kind != fixing:
                    rows.append((class_id, score, kind is None))
                elif chosen.get(number) == index and kind in ('localization', 'classification'):
                    rows.append((objects[number][1], score, True))
        return rows, counts

    def mean(fixing):
        rows, counts = rows_and_counts(fixing)
        # Classes without any object from the start are left out.
        return mean_average_precision(
            rows, {class_id: counts[class_id] for class_id in with_objects}
        )

    with_objects = {class_id for objects, _ in images for _, class_id in objects}
    before = mean(None)
    names = ('classification', 'localization', 'both', 'duplicate', 'background', 'missed')
    return {name: mean(name) - before for name in names}


def confusion(images, num_classes, least_score):
    """Count (groundtruth, prediction) pairs; index num_classes is the background."""
    matrix = [[0] * (num_classes + 1) for _ in range(num_classes + 1)]
    for objects, detections in images:
        shown = [each for each in detections if each[2] >= least_score]
        pairs = match(objects, shown)
        possible = sorted(
            (
                (iou(box, other), index, number)
                for index, (box, class_id, _) in enumerate(shown)
                for number, (other, other_class) in enumerate(objects)
                if class_id != other_class and iou(box, other) >= 0.5
            ),
            key=lambda each: -each[0],
        )
        for _, index, number in possible:
            if index not in pairs and number not in pairs.values():
                pairs[index] = number
        for index, (_, class_id, _) in enumerate(shown):
            row = objects[pairs[index]][1] - 1 if index in pairs else num_classes
            matrix[row][class_id - 1] += 1
        for number, (_, class_id) in enumerate(objects):
            if number not in pairs.values():
                matrix[class_id - 1][num_classes] += 1
    return matrix


def rates(images, class_id, least_score):
    """Return precision, recall and F1 of a class; None where it is not defined."""
    true = shown = count = 0
    for objects, detections in images:
        kept = [each for each in detections if each[1] == class_id and each[2] >= least_score]
        own = [each for each in objects if each[1] == class_id]
        true, shown, count = true + len(match(own, kept)), shown + len(kept), count + len(own)
    return (
        true / shown if shown else None,
        true / count if count else None,
        2 * true / (shown + count) if count else None,
    )
