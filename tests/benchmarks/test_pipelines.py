"""Records with all that the readers of published configs load."""

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from benchmarks import pipelines
from model_fns.detection import fields
from model_fns.detection.data import inputs, sequences
from protos import pipeline_pb2
from tests import tiny_detection


def test_readers_of_sequences_get_sequences(tmp_path):
    tiny_detection.write_records(tmp_path / 'plain.tfrecord', 1, seed=0)
    reader = f"""
      tf_record_input_reader {{ input_path: '{tmp_path}/plain.tfrecord' }}
      load_context_features: true input_type: TF_SEQUENCE_EXAMPLE
    """
    config = text_format.Parse(
        f"""
        model {{ faster_rcnn {{ context_config {{ context_feature_length: 7 }} }} }}
        train_input_reader {{ {reader} }} eval_input_reader {{ {reader} }}
        """,
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    pipelines.complete_records(config, str(tmp_path), count=1)
    (path,) = config.eval_input_reader[0].tf_record_input_reader.input_path
    (record,) = tf.data.TFRecordDataset(path).as_numpy_iterator()
    (plain,) = tf.data.TFRecordDataset(f'{tmp_path}/plain.tfrecord').as_numpy_iterator()
    assert tf.train.SequenceExample.FromString(record).feature_lists.feature_list
    decoder = inputs.build_reader(config, num_classes=2, label_map=None)
    (frame,) = sequences.split(record)
    example = decoder.decode(tf.constant(frame))
    assert example[fields.CONTEXT_FEATURES].shape == [5, 7]
    values = tf.train.Example.FromString(plain).features.feature
    expected = values['image/object/bbox/ymin'].float_list.value
    np.testing.assert_allclose(example[fields.BOXES][:, 0], expected)


def test_records_get_what_their_readers_load(tmp_path):
    tiny_detection.write_records(tmp_path / 'plain.tfrecord', 3, seed=0)
    reader = f"""
      tf_record_input_reader {{ input_path: '{tmp_path}/plain.tfrecord' }}
      load_instance_masks: true mask_type: PNG_MASKS num_keypoints: 2
      load_context_features: true
    """
    config = text_format.Parse(
        f"""
        model {{ faster_rcnn {{ context_config {{ context_feature_length: 7 }} }} }}
        train_input_reader {{ {reader} }} eval_input_reader {{ {reader} }}
        """,
        pipeline_pb2.TrainEvalPipelineConfig(),
    )
    pipelines.complete_records(config, str(tmp_path), count=2)
    (path,) = config.eval_input_reader[0].tf_record_input_reader.input_path
    decoder = inputs.build_reader(config, num_classes=2, label_map=None)
    records = list(tf.data.TFRecordDataset(path))
    assert len(records) == 2
    for record in records:
        assert decoder.find_problem(record.numpy()) is None
        example = decoder.decode(record)
        count = len(example[fields.BOXES])
        assert example[fields.CONTEXT_FEATURES].shape == [5, 7]
        masks, boxes = example[fields.MASKS].numpy(), example[fields.BOXES].numpy() * 64
        assert masks.shape == (count, 64, 64)
        for mask, box in zip(masks, boxes):
            # An ellipse fills pi / 4 of its box.
            area = (box[2] - box[0]) * (box[3] - box[1])
            assert mask.sum() == pytest.approx(area * np.pi / 4, rel=0.1)
            rows = np.flatnonzero(mask.any(1))
            np.testing.assert_allclose([rows[0], rows[-1] + 1], box[[0, 2]], atol=1)
        points = example[fields.KEYPOINTS].numpy()
        assert points.shape == (count, 2, 2) and np.isfinite(points).all()
