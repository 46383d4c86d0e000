"""Pipeline configs of the benchmarks: published ones, on local data."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from benchmarks import measuring

# Published configs, and what else is recorded of the systems that they come from.
PUBLISHED = os.path.join(os.path.dirname(measuring.ROOT), 'shared', 'configs')

_OF_A_CLUSTER = ('sync_replicas', 'replicas_to_aggregate', 'startup_delay_steps')


def read_records(config: Any, records: str, label_map: str) -> None:
    """Let all readers of a config read the same records.

    Args:
        config: `TrainEvalPipelineConfig`; changed in place.
        records: a glob of TFRecords.
        label_map: of the records.
    """
    for reader in (config.train_input_reader, *config.eval_input_reader):
        del reader.tf_record_input_reader.input_path[:]
        reader.tf_record_input_reader.input_path.append(records)
        reader.label_map_path = label_map


def read_demo(config: Any) -> None:
    """Let all readers of a detector's config read the embedded demo's scenes; see `read_records`.

    A model with fewer classes than the demo gets as many.
    """
    from model_fns.datasets import demo
    from model_fns.structures import label_map

    dataset = demo.demo_dataset()
    read_records(config, dataset.pattern('scenes', 'train'), dataset.label_map)
    if config.model.WhichOneof('model') in ('ssd', 'faster_rcnn', 'center_net'):
        least = label_map.LabelMap.read(dataset.label_map).max_id
        model = getattr(config.model, config.model.WhichOneof('model'))
        model.num_classes = max(model.num_classes, least)


def complete_records(config: Any, folder: str, count: int = 4) -> None:
    """Let all readers of a config read a few of their records with all that they load.

    Each box gets an ellipse as its mask, and keypoints at random places in it; each image random
    features of others, of which it has fewer than there is room for.

    Args:
        config: `TrainEvalPipelineConfig`; changed in place.
        folder: for the new records.
        count: how many there are.
    """
    import tensorflow as tf

    from estimator_lib.data import inputs
    from protos import input_reader_pb2

    reader = config.train_input_reader
    path_of_first = inputs.input_files(reader)[0].path
    path = os.path.join(folder, 'complete.tfrecord')
    as_sequences = reader.input_type == input_reader_pb2.TF_SEQUENCE_EXAMPLE
    with tf.io.TFRecordWriter(path) as writer:
        for serialized in tf.data.TFRecordDataset(path_of_first).take(count).as_numpy_iterator():
            example = tf.train.Example.FromString(serialized)
            _add_loaded(example.features.feature, config)
            record = _to_sequence(example) if as_sequences else example
            writer.write(record.SerializeToString())
    for each in (reader, *config.eval_input_reader):
        each.tf_record_input_reader.input_path[:] = [path]
    if config.model.center_net.keypoint_estimation_task:
        _name_keypoints(config, os.path.join(folder, 'keypoints.pbtxt'))


def _name_keypoints(config: Any, path: str) -> None:
    """Give the first class the name and the keypoints that a CenterNet and metrics look for.

    Args:
        config: `TrainEvalPipelineConfig`; changed in place.
        path: of the label map that is written.
    """
    task = config.model.center_net.keypoint_estimation_task[0]
    labels = sorted(task.keypoint_label_to_std)
    keypoints = ' '.join(
        f'keypoints {{ id: {number} label: "{label}" }}' for number, label in enumerate(labels)
    )
    metric = config.eval_config.parameterized_metric[0].coco_keypoint_metrics
    # Metrics call the class by what records call it.
    metric.class_label = task.keypoint_class_name
    with open(path, 'w') as file:
        file.write(f'item {{ id: 1 name: "{task.keypoint_class_name}" {keypoints} }}\n')
    config.model.center_net.keypoint_label_map_path = path
    for reader in (config.train_input_reader, *config.eval_input_reader):
        reader.label_map_path = path


def _to_sequence(example: Any) -> Any:
    """Return an example as a `tf.train.SequenceExample` of one frame."""
    import tensorflow as tf

    from model_fns.detection.data import sequences

    of_frames = {ours: theirs for theirs, ours in sequences.OF_REGIONS.items()}
    of_frames.update({key: key for key in ('image/encoded', 'image/source_id')})
    sequence = tf.train.SequenceExample()
    for key, feature in example.features.feature.items():
        if key in of_frames:
            sequence.feature_lists.feature_list[of_frames[key]].feature.add().CopyFrom(feature)
        elif '/object/' not in key:
            sequence.context.feature[key].CopyFrom(feature)
    return sequence


def _add_loaded(feature: Any, config: Any) -> None:
    """Add what the reader loads to the features of a record."""
    from estimator_lib.drawing import visualization
    from model_fns.structures import images
    from protos import input_reader_pb2

    reader = config.train_input_reader
    if config.model.center_net.keypoint_estimation_task:
        # All objects are of the class that has keypoints.
        count = len(feature['image/object/class/label'].int64_list.value)
        feature['image/object/class/label'].int64_list.value[:] = [1] * count
        feature['image/object/class/text'].bytes_list.value[:] = []
    header = images.image_header(feature['image/encoded'].bytes_list.value[0])
    boxes = np.array(
        [
            feature[f'image/object/bbox/{side}'].float_list.value
            for side in ('ymin', 'xmin', 'ymax', 'xmax')
        ]
    ).T
    random = np.random.RandomState(len(boxes))
    if reader.load_instance_masks:
        masks = [_ellipse(box, header.height, header.width) for box in boxes]
        if reader.mask_type == input_reader_pb2.PNG_MASKS:
            encoded = [visualization.encode_png(mask) for mask in masks]
            feature['image/object/mask'].bytes_list.value[:] = encoded
        else:
            values = np.concatenate([mask.ravel() for mask in masks])
            feature['image/object/mask'].float_list.value[:] = values.astype(float)
    if reader.num_keypoints:
        shares = random.uniform(size=[len(boxes), reader.num_keypoints, 2])
        points = boxes[:, np.newaxis, :2] * (1 - shares) + boxes[:, np.newaxis, 2:] * shares
        for axis, values in zip('yx', points.reshape([-1, 2]).T):
            feature[f'image/object/keypoint/{axis}'].float_list.value[:] = values
        visible = np.full([points.size // 2], 2)
        feature['image/object/keypoint/visibility'].int64_list.value[:] = visible
    if reader.load_context_features:
        length = config.model.faster_rcnn.context_config.context_feature_length
        values = random.normal(size=[5 * length])
        feature['image/context_features'].float_list.value[:] = values
        feature['image/context_feature_length'].int64_list.value[:] = [length]


def _ellipse(box: Any, height: int, width: int) -> Any:
    """Return a mask uint8 [height, width], 1 inside of the ellipse in a normalized box."""
    middle, half = (box[:2] + box[2:]) / 2, np.maximum(box[2:] - box[:2], 1e-6) / 2
    rows = ((np.arange(height) + 0.5) / height - middle[0]) / half[0]
    columns = ((np.arange(width) + 0.5) / width - middle[1]) / half[1]
    return (rows[:, np.newaxis] ** 2 + columns**2 <= 1).astype(np.uint8)


def clear_cluster(config: Any) -> None:
    """Take out of a config the checkpoint that it starts from, and the cluster it was made for.

    Args:
        config: `TrainEvalPipelineConfig`; changed in place.
    """
    config.train_config.ClearField('fine_tune_checkpoint')
    for field in _OF_A_CLUSTER:
        config.train_config.ClearField(field)
