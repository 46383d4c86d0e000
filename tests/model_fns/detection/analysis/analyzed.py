"""Examples for tests of the analyzer, as an evaluation fetches them."""

from __future__ import annotations

import numpy as np

from model_fns.detection import fields

SIZE = (200, 400)  # height and width of images, in pixels


def arrays(objects, found, name=b'', size=SIZE, room=4):
    """Build the arrays of an image from boxes in pixels, with padding behind the last.

    Args:
        objects: (box, class id) of each object.
        found: (box, class id, score) of each detection.
        name: source id.
        size: height and width of the image.
        room: rows of padding.
    """
    scale = np.tile(np.array(size, np.float64), 2)

    def rows(values, width=()):
        values = list(values)
        padded = np.zeros([len(values) + room, *width], np.float32)
        if values:
            padded[: len(values)] = values
        return padded

    flags = np.zeros(len(objects) + room, bool)
    return {
        fields.SOURCE_ID: name,
        fields.ORIGINAL_SHAPE: np.array(size, np.int32),
        fields.BOXES: rows((np.array(box) / scale for box, _ in objects), (4,)),
        fields.CLASSES: rows(each[1] - 1 for each in objects).astype(np.int64),
        fields.IS_CROWD: flags,
        fields.DIFFICULT: flags,
        fields.GROUP_OF: flags,
        fields.AREA: np.zeros(len(flags), np.float32),
        fields.NUM_BOXES: np.int32(len(objects)),
        fields.DETECTION_BOXES: rows((np.array(each[0]) / scale for each in found), (4,)),
        fields.DETECTION_CLASSES: rows(each[1] for each in found),
        fields.DETECTION_SCORES: rows(each[2] for each in found),
        fields.NUM_DETECTIONS: np.float32(len(found)),
    }
