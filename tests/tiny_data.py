"""Data small enough for end-to-end tests: three colors to tell apart, as TFRecords."""

import numpy as np
import tensorflow as tf

COLORS = ('red', 'green', 'blue')


def png(array):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(tf.io.encode_png(array))


def colored_images(count, size=40, seed=0):
    """(label from 1, uint8 image) pairs; an image is noise around its label's color."""
    random = np.random.RandomState(seed)
    for index in range(count):
        label = index % len(COLORS)
        image = random.randint(0, 60, [size, size, 3])
        image[:, :, label] += 190
        yield label + 1, image.astype(np.uint8)


def example(label, encoded, source_id):
    record = tf.train.Example()
    feature = record.features.feature
    feature['image/encoded'].bytes_list.value.append(encoded)
    feature['image/class/label'].int64_list.value.append(label)
    feature['image/source_id'].bytes_list.value.append(source_id.encode())
    return record.SerializeToString()


def write_records(path, count, seed=0, labels=None):
    """Write a TFRecord file; `labels` replaces the labels of the first records."""
    encoded = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        image = tf.compat.v1.placeholder(tf.uint8, [None, None, 3])
        png_of = tf.io.encode_png(image)
        for label, array in colored_images(count, seed=seed):
            encoded.append((label, session.run(png_of, {image: array})))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for index, (label, content) in enumerate(encoded):
            if labels is not None and index < len(labels):
                label = labels[index]
            writer.write(example(label, content, f'image_{index}.png'))


def write_label_map(path):
    items = (f"item {{ id: {i} name: '{name}' }}" for i, name in enumerate(COLORS, start=1))
    path.write_text('\n'.join(items))


CONFIG = """
model {{
  classification {{
    num_classes: 3
    labels_offset: 1
    image_height: 32
    image_width: 32
    backbone {{ name: 'mobilenet_v1' depth_multiplier: 0.1 batch_norm_decay: 0.8 }}
  }}
}}
train_config {{
  batch_size: 6
  num_steps: 50
  optimizer {{
    adam_optimizer {{
      epsilon: 1e-8
      learning_rate {{ constant_learning_rate {{ learning_rate: 0.005 }} }}
    }}
    use_moving_average: false
  }}
  checkpoints {{ save_every_n_steps: 25 }}
}}
train_input_reader {{
  label_map_path: '{folder}/label_map.pbtxt'
  tf_record_input_reader {{ input_path: '{folder}/train*.tfrecord' }}
}}
eval_config {{ batch_size: 5 num_visualizations: 2 }}
eval_input_reader {{
  tf_record_input_reader {{ input_path: '{folder}/val.tfrecord' }}
  shuffle: false
}}
export_config {{ best {{ metric: 'accuracy' }} latest {{ keep_max: 1 }} }}
"""


# The same with a network of few layers, where the network is not what is tested. Its linear layer
# has 16 KB of weights for each pixel.
LENET_CONFIG = (
    CONFIG.replace(
        "name: 'mobilenet_v1' depth_multiplier: 0.1 batch_norm_decay: 0.8", "name: 'lenet'"
    )
    .replace('image_height: 32', 'image_height: 8')
    .replace('image_width: 32', 'image_width: 8')
)


def write_all(folder):
    """Write records, label map and pipeline config to a folder; return the config's path."""
    write_records(folder / 'train.tfrecord', 24)
    write_records(folder / 'val.tfrecord', 12, seed=1)
    write_label_map(folder / 'label_map.pbtxt')
    path = folder / 'pipeline.config'
    path.write_text(CONFIG.format(folder=folder))
    return path
