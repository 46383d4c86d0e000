"""Files of the benchmark: they are the images and boxes of the records."""

import numpy as np
import pytest
import tensorflow as tf

import model_fns
from benchmarks import scenes
from benchmarks.input import files
from estimator_lib.data import inputs
from protos import input_reader_pb2


@pytest.mark.parametrize('kind', ['voc', 'yolo', 'coco'])
def test_files_have_the_images_and_boxes_of_records(tmp_path, kind):
    paths = scenes.write_records(str(tmp_path), 3)
    files.write_files(str(tmp_path), paths['records'])
    fields = files.create_readers(str(tmp_path), paths['records'])
    assert model_fns.build_task  # it knows the readers
    read = {}
    for name in ('records', kind):
        reader = input_reader_pb2.InputReader(label_map_path=paths['label_map'], **fields[name])
        (file,) = inputs.input_files(reader)
        serialized = (
            tf.compat.v1.io.tf_record_iterator(file.path)
            if file.examples is None
            else map(file.examples.read, range(len(file.examples)))
        )
        features = [tf.train.Example.FromString(each).features.feature for each in serialized]
        read[name] = {each['image/encoded'].bytes_list.value[0]: each for each in features}
    assert read[kind].keys() == read['records'].keys() and len(read[kind]) == 3
    for image, feature in read['records'].items():
        for key in ('bbox/ymin', 'bbox/xmin', 'bbox/ymax', 'bbox/xmax'):
            values = [read[name][image][f'image/object/{key}'].float_list.value for name in read]
            np.testing.assert_allclose(*values, atol=1e-5)
        labels = read[kind][image]['image/object/class/label'].int64_list.value
        assert labels == feature['image/object/class/label'].int64_list.value
