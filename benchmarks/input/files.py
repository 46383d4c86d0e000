"""Measurement of training input from TFRecords and from the files of data sets.

    python -m benchmarks.input.files [--model=ssd_mobilenet_v1_coco] [--batch_size=32]

The same synthetic images, 320 x 240 JPEG, are read from TFRecords and, without a conversion, from
Pascal VOC, YOLO and COCO files; of COCO also with the masks of polygons, which records have too
then. Images a second are those of `session.run` on whole batches, varied as the published config
has it. Readers are measured alternately, and the least times of the turns count.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import pathlib
import tempfile
from typing import Any, Dict, List

from benchmarks import measuring, scenes
from benchmarks.input import stages


def write_files(folder: str, pattern: str) -> None:
    """Write the images and boxes of records as files of Pascal VOC, YOLO and COCO.

    Args:
        folder: gets `images/`, `xml/`, `labels/` and `instances.json`.
        pattern: the files of the records.
    """
    import tensorflow as tf

    root = pathlib.Path(folder)
    for name in ('images', 'xml', 'labels'):
        (root / name).mkdir()
    content: Dict[str, List[Any]] = {
        'images': [],
        'annotations': [],
        'categories': [{'id': i, 'name': name} for i, name in enumerate(scenes.CLASSES, 1)],
    }
    (root / 'labels' / 'classes.txt').write_text('\n'.join(scenes.CLASSES))
    paths = sorted(tf.io.gfile.glob(pattern))
    for number, record in enumerate(
        record for path in paths for record in tf.compat.v1.io.tf_record_iterator(path)
    ):
        feature = tf.train.Example.FromString(record).features.feature
        name = feature['image/source_id'].bytes_list.value[0].decode()
        (root / 'images' / name).write_bytes(feature['image/encoded'].bytes_list.value[0])
        content['images'].append({'id': number, 'file_name': name})
        stem, xml, lines = os.path.splitext(name)[0], [], []
        sides = [
            feature[f'image/object/bbox/{side}'].float_list.value
            for side in ('ymin', 'xmin', 'ymax', 'xmax')
        ]
        labels = feature['image/object/class/label'].int64_list.value
        for label, top, left, bottom, right in zip(labels, *sides):
            height, width = bottom - top, right - left
            lines.append(f'{label - 1} {left + width / 2} {top + height / 2} {width} {height}')
            top, bottom = top * scenes.HEIGHT, bottom * scenes.HEIGHT
            left, right = left * scenes.WIDTH, right * scenes.WIDTH
            box = {'xmin': left, 'ymin': top, 'xmax': right, 'ymax': bottom}
            tags = ''.join(f'<{side}>{value}</{side}>' for side, value in box.items())
            class_name = scenes.CLASSES[label - 1]
            xml.append(f'<object><name>{class_name}</name><bndbox>{tags}</bndbox></object>')
            content['annotations'].append(
                {
                    'id': len(content['annotations']),
                    'image_id': number,
                    'category_id': label,
                    'bbox': [left, top, right - left, bottom - top],
                    'segmentation': [[left, top, right, top, right, bottom, left, bottom]],
                }
            )
        (root / 'xml' / f'{stem}.xml').write_text(f'<annotation>{"".join(xml)}</annotation>')
        (root / 'labels' / f'{stem}.txt').write_text('\n'.join(lines))
    (root / 'instances.json').write_text(json.dumps(content))


def create_readers(folder: str, pattern: str) -> Dict[str, Dict[str, Any]]:
    """Return the fields of the input readers to compare, by their names in the results.

    Args:
        folder: of `write_files`.
        pattern: the files of the records.
    """
    images, annotations = os.path.join(folder, 'images'), {}
    for kind, name in (('voc', 'xml'), ('yolo', 'labels'), ('coco', 'instances.json')):
        paths = {'image_path': [images], 'annotation_path': [os.path.join(folder, name)]}
        annotations[kind] = {f'{kind}_input_reader': paths}
    return {
        'records': {'tf_record_input_reader': {'input_path': [pattern]}},
        **annotations,
        'coco_cached': {**annotations['coco'], 'cache': 'MEMORY'},
        'coco_masks': {
            **annotations['coco'],
            'load_instance_masks': True,
            'mask_type': 'PNG_MASKS',
        },
    }


def measure(model: str, batch_size: int, images: int, turns: int) -> Dict[str, float]:
    """Measure images/s, and microseconds of processor time an image, by reader."""
    import tensorflow as tf

    from estimator_lib.data import inputs
    from protos import input_reader_pb2

    tf1 = tf.compat.v1
    batches = max(images, 2 * stages.RECORDS) // batch_size
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        paths = scenes.write_records(folder, stages.RECORDS)
        config = scenes.load_config(model, paths, len(scenes.CLASSES))
        config.train_config.batch_size = batch_size
        write_files(folder, paths['records'])
        sides = {}
        for name, fields in create_readers(folder, paths['records']).items():
            own = copy.deepcopy(config)
            own.train_input_reader.ClearField('tf_record_input_reader')
            own.train_input_reader.MergeFrom(input_reader_pb2.InputReader(**fields))
            with tf.Graph().as_default() as graph:
                fetched = tf.group(*tf.nest.flatten(inputs.RecordInput(stages.plan(own))()))
                initializers = [tf1.global_variables_initializer(), tf1.tables_initializer()]
            session = tf1.Session(graph=graph)
            stack.callback(session.close)
            for initializer in initializers:
                session.run(initializer)
            sides[name] = stages.repeated(session, fetched, batches)
        least = stages.least_seconds(sides, turns)
    results: Dict[str, float] = {}
    for name, times in least.items():
        results[f'{name}_images_per_second'] = batches * batch_size / times.wall
        results[f'{name}_cpu_us'] = 1e6 * times.cpu / (batches * batch_size)
    return results


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--model', default='ssd_mobilenet_v1_coco', help='a config of shared/')
    parser.add_argument('--batch_size', type=int, default=32, help='images of a batch')
    parser.add_argument('--images', type=int, default=640, help='of a turn')
    parser.add_argument('--turns', type=int, default=5, help='of which the least counts')
    parser.add_argument('--output', default='benchmark_files.json', help='where the JSON goes')
    flags = parser.parse_args()
    measuring.quiet()
    results: Dict[str, Any] = {'model': flags.model, 'batch_size': flags.batch_size}
    results.update(measure(flags.model, flags.batch_size, flags.images, flags.turns))
    measuring.report(results, flags.output)


if __name__ == '__main__':
    main()
