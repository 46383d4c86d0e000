"""Data sets of two images for each part, in the layouts in which people publish them."""

import csv
import json

import numpy as np
import tensorflow as tf

from model_fns.datasets import codecs
from tests.model_fns.datasets import converted
from tests.model_fns.datasets.test_readers import write_voc

HEIGHT, WIDTH = 20, 30
BOX = 'bndbox'  # of `write_voc`


def write_images(folder, *stems, ending='.png'):
    for value, stem in enumerate(stems):
        converted.write_image(folder / f'{stem}{ending}', HEIGHT, WIDTH, value)


def write_yolo(root, line='0 0.5 0.5 0.2 0.4', more='', valid='valid', train='../train/images'):
    """Roboflow's YOLO: `../train/images` is written for a folder beside the file."""
    for part, stems in (('train', 'ab'), (valid, 'cd')):
        write_images(root / part / 'images', *stems)
        (root / part / 'labels').mkdir(parents=True)
        for stem in stems:
            (root / part / 'labels' / f'{stem}.txt').write_text(f'{line}\n')
    (root / 'data.yaml').write_text(
        f'train: {train}\nval: ../{valid}/images\nnc: 2\nnames: [cat, dog]\n{more}'
    )


def coco(*stems, **more):
    """Return the content of an instances file with an object for each image."""
    box = {'bbox': [3, 4, 6, 8], 'area': 48, 'iscrowd': 0, 'category_id': 1, **more}
    return {
        'images': [
            {'id': number, 'file_name': f'{stem}.png', 'height': HEIGHT, 'width': WIDTH}
            for number, stem in enumerate(stems)
        ],
        'annotations': [{'id': n, 'image_id': n, **box} for n in range(len(stems))],
        'categories': [{'id': 1, 'name': 'cat', 'supercategory': 'animal'}],
    }


def write_roboflow_coco(root):
    for part, stems in (('train', 'ab'), ('valid', 'cd')):
        write_images(root / part, *stems)
        (root / part / '_annotations.coco.json').write_text(json.dumps(coco(*stems)))


def write_coco(root):
    """COCO's own layout."""
    for part, stems in (('train2017', 'ab'), ('val2017', 'cd')):
        write_images(root / part, *stems)
        path = root / 'annotations' / f'instances_{part}.json'
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(coco(*stems, segmentation=[[3, 4, 9, 4, 9, 12]])))


def write_voc_lists(root):
    write_images(root / 'JPEGImages', *'abcd')
    for stem in 'abcd':
        write_voc(root / 'Annotations', stem)
    lists = root / 'ImageSets' / 'Main'
    lists.mkdir(parents=True)
    for name, stems in (('train', 'ab'), ('val', 'cd'), ('unused', 'a')):
        (lists / f'{name}.txt').write_text('\n'.join(stems))


def write_roboflow_voc(root):
    for part, stems in (('train', 'ab'), ('valid', 'cd')):
        write_images(root / part, *stems)
        for stem in stems:
            write_voc(root / part, stem)


def write_labelme(root):
    write_images(root, 'scene', 'other')
    for stem in ('scene', 'other'):
        shape = {'label': 'cat', 'points': [[3, 4], [9, 4], [9, 12]], 'shape_type': 'polygon'}
        content = {'shapes': [shape], 'imageHeight': HEIGHT, 'imageWidth': WIDTH}
        (root / f'{stem}.json').write_text(json.dumps(content))


def write_roboflow_csv(root):
    columns = ['filename', 'width', 'height', 'class', 'xmin', 'ymin', 'xmax', 'ymax']
    for part, stems in (('train', 'ab'), ('valid', 'cd')):
        write_images(root / part, *stems)
        rows = [[f'{stem}.png', WIDTH, HEIGHT, 'cat', 3, 4, 9, 12] for stem in stems]
        with open(root / part / '_annotations.csv', 'w', newline='') as file:
            csv.writer(file).writerows([columns, *rows])


def write_labels_csv(root):
    """Roboflow's labels: several classes for an image."""
    for part, stems in (('train', 'ab'), ('valid', 'cd')):
        write_images(root / part, *stems)
        rows = [f'{stem}.png, 1, {place}' for place, stem in enumerate(stems)]
        (root / part / '_classes.csv').write_text('\n'.join(['filename, cat, dog', *rows]))


def write_class_folders(root):
    for part in ('train', 'val'):
        for name in ('cat', 'dog'):
            write_images(root / part / name, f'{part}_{name}')


def write_masks(root, value=255):
    """Binary masks of 0 and 255."""
    for part, stems in (('train', 'ab'), ('val', 'cd')):
        write_images(root / part / 'images', *stems)
        write_id_pngs(root / part / 'masks', stems, value)


def write_instances(root):
    write_images(root / 'images', 'a', 'b')
    write_id_pngs(root / 'instance_masks', 'ab', 300, np.uint16)


def write_id_pngs(folder, stems, value, kind=np.uint8):
    folder.mkdir(parents=True, exist_ok=True)
    ids = np.zeros([HEIGHT, WIDTH], kind)
    ids[4:12, 3:9] = value
    for stem in stems:
        (folder / f'{stem}.png').write_bytes(codecs.encode_png(ids))


def write_roboflow_masks(root):
    for part, stems in (('train', 'ab'), ('valid', 'cd')):
        write_images(root / part, *stems)
        write_id_pngs(root / part, [f'{stem}_mask' for stem in stems], 1)
        (root / part / '_classes.csv').write_text('Pixel Value, Class\n0, background\n1, cat\n')


def write_records(root):
    """TFRecords of the Object Detection API, with Roboflow's names."""
    for part, stems in (('train', 'ab'), ('valid', 'cd')):
        (root / part).mkdir(parents=True)
        (root / part / 'Cats_label_map.pbtxt').write_text("item { id: 1 name: 'cat' }")
        with tf.io.TFRecordWriter(str(root / part / 'Cats.tfrecord')) as writer:
            for stem in stems:
                writer.write(record(stem))


def record(stem):
    example = tf.train.Example()
    feature = example.features.feature
    image = codecs.encode_png(np.zeros([HEIGHT, WIDTH, 3], np.uint8))
    feature['image/encoded'].bytes_list.value.append(image)
    feature['image/source_id'].bytes_list.value.append(stem.encode())
    for side, value in zip(('ymin', 'xmin', 'ymax', 'xmax'), (0.2, 0.1, 0.6, 0.3)):
        feature[f'image/object/bbox/{side}'].float_list.value.append(value)
    feature['image/object/class/label'].int64_list.value.append(1)
    feature['image/object/class/text'].bytes_list.value.append(b'cat')
    return example.SerializeToString()


def write_darknet(root):
    """One folder for images and labels, with `classes.txt`."""
    write_images(root, 'a', 'b')
    for stem in 'ab':
        (root / f'{stem}.txt').write_text('1 0.5 0.5 0.2 0.4\n')
    (root / 'classes.txt').write_text('cat\ndog\n')
