"""Detection records for tests."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

PLACES = ('ymin', 'xmin', 'ymax', 'xmax')


@functools.cache
def png(height=4, width=6, value=7):
    """Encode an image of one color as PNG."""
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(tf.io.encode_png(np.full([height, width, 3], value, np.uint8)))


def mask_png(mask):
    """Encode a mask [height, width] as PNG."""
    with tf.Graph().as_default(), tf1.Session() as session:
        return session.run(tf.io.encode_png(np.asarray(mask, np.uint8)[..., np.newaxis]))


def record(
    boxes=(),
    labels=None,
    texts=(),
    encoded='',
    source_id='image.png',
    filename='',
    image_labels=(),
    image_texts=(),
    masks=(),
    numerical_masks=(),
    keypoints_y=(),
    keypoints_x=(),
    visibilities=(),
    **lists,
):
    """Build a serialized `tf.train.Example`.

    Args:
        boxes: [n, 4] of ymin, xmin, ymax, xmax.
        labels: label ids; None: 1 for each box.
        texts: class names.
        encoded: bytes of the image; '' for a small PNG, None for no image at all.
        source_id: of the image.
        filename: of the image.
        image_labels: ids of classes that were looked for.
        image_texts: their names.
        masks: bytes of PNGs.
        numerical_masks: floats.
        keypoints_y: of all keypoints of all boxes.
        keypoints_x: likewise.
        visibilities: likewise.
        **lists: `ymax` and so on replace a side of the boxes; others are `image/object/<name>`.
    """
    labels = [1] * len(boxes) if labels is None else labels
    message = tf.train.Example()
    feature = message.features.feature

    def add(key, values):
        for value in values:
            if isinstance(value, (bytes, str)):
                feature[key].bytes_list.value.append(tf.compat.as_bytes(value))
            elif isinstance(value, (int, np.integer)):
                feature[key].int64_list.value.append(value)
            else:
                feature[key].float_list.value.append(value)

    if encoded is not None:
        add('image/encoded', [png() if encoded == '' else encoded])
    add('image/source_id', [source_id])
    add('image/filename', [filename])
    add('image/class/label', image_labels)
    add('image/class/text', image_texts)
    for place, name in enumerate(PLACES):
        add(f'image/object/bbox/{name}', lists.pop(name, [float(box[place]) for box in boxes]))
    add('image/object/class/label', labels)
    add('image/object/class/text', texts)
    add('image/object/mask', [*masks, *numerical_masks])
    add('image/object/keypoint/y', keypoints_y)
    add('image/object/keypoint/x', keypoints_x)
    add('image/object/keypoint/visibility', visibilities)
    for name, values in lists.items():
        add(f'image/object/{name}', values)
    return message.SerializeToString()
