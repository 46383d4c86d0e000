"""Data sets in public layouts are recognized, and read by the readers of their formats."""

import json

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.datasets.recognition import layouts, reading, recognizers, yolo_files
from model_fns.datasets.recognition.layouts import DataSet
from model_fns.recipes import facts as facts_lib
from model_fns.structures.label_map import LabelMap
from tests.model_fns.datasets.recognition import public_layouts as public

# How it is written, the first words of the description, the usual task, and the classes.
LAYOUTS = {
    'yolo': (public.write_yolo, 'YOLO boxes of data.yaml', 'detection', ['cat', 'dog']),
    'roboflow coco': (public.write_roboflow_coco, 'COCO boxes', 'detection', ['cat']),
    'coco': (public.write_coco, 'COCO polygons', 'detection', ['cat']),
    'voc': (public.write_voc_lists, 'Pascal VOC boxes', 'detection', ['cat']),
    'roboflow voc': (public.write_roboflow_voc, 'Pascal VOC boxes', 'detection', ['cat']),
    'labelme': (public.write_labelme, 'labelme polygons', 'detection', ['cat']),
    'roboflow csv': (public.write_roboflow_csv, 'a table (CSV) of boxes', 'detection', ['cat']),
    'labels': (
        public.write_labels_csv,
        'a table (CSV) of labels',
        'classification',
        ['cat', 'dog'],
    ),
    'folders': (public.write_class_folders, 'a folder for each', 'classification', ['cat', 'dog']),
    'masks': (public.write_masks, 'PNGs of class ids', 'segmentation', ['object']),
    'roboflow masks': (public.write_roboflow_masks, 'PNGs of class', 'segmentation', ['cat']),
    'instances': (public.write_instances, 'PNGs of instance ids', 'detection', ['object']),
    'records': (public.write_records, 'TFRecords', 'detection', ['cat']),
    'darknet': (public.write_darknet, 'YOLO boxes in folders', 'detection', ['cat', 'dog']),
}
NORMALIZED = [[0.2, 0.1, 0.6, 0.3]]  # of 3, 4, 9, 12 in an image of 30 x 20 pixels


def read(root, folder, task=''):
    data = recognizers.recognize(str(root))
    task = task or data.tasks[0]
    sources = reading.create(data, task, str(folder))
    return data, sources, facts_lib.collect(sources.train, sources.evaluation)


@pytest.mark.parametrize('name', LAYOUTS)
def test_public_layouts_are_understood(name, tmp_path):
    write, description, task, classes = LAYOUTS[name]
    root = tmp_path / 'set'
    root.mkdir()
    write(root)
    data, sources, facts = read(root, tmp_path / 'run')
    assert data.description.startswith(description) and data.tasks[0] == task
    assert facts.class_names == classes
    is_split = len(data.parts) == 1
    count = 1 if is_split else 2
    assert (len(facts.train), len(facts.evaluation)) == (count, count)
    assert bool(sources.notes) == is_split
    assert all(image.size == (public.HEIGHT, public.WIDTH) for image in facts.all())
    if task == 'detection' and not name.startswith(
        ('yolo', 'darknet', 'instances', 'roboflow voc', 'voc')
    ):
        for image in facts.all():
            np.testing.assert_allclose(image.boxes, NORMALIZED, atol=1e-6)


def test_relative_paths_of_a_data_file(tmp_path):
    for number, train in enumerate(
        [
            '../train/images',
            'train/images',
            './train/images/',
            'train',
            f'{tmp_path}/3/train/images',
        ]
    ):
        root = tmp_path / str(number)
        public.write_yolo(root, train=train if '/3/' not in train else f'{root}/train/images')
        data = recognizers.recognize(str(root / 'data.yaml'))
        assert data.parts[layouts.TRAIN] == [
            layouts.Folder(f'{root}/train/images', f'{root}/train/labels')
        ]


def test_a_root_lists_and_several_folders_of_a_data_file(tmp_path):
    public.write_yolo(tmp_path, valid='val')
    (tmp_path / 'train.txt').write_text('./train/images/b.png\n')
    (tmp_path / 'sets').mkdir()
    (tmp_path / 'sets' / 'cats.yaml').write_text(
        'path: ..\ntrain: [train.txt, val/images]\nval: val/images\nnames: {0: cat, 1: dog}\n'
    )
    data, _, facts = read(tmp_path / 'sets' / 'cats.yaml', tmp_path / 'run')
    assert [folder.names for folder in data.parts[layouts.TRAIN]] == [['b.png'], None]
    assert (len(facts.train), len(facts.evaluation)) == (3, 2)


def test_a_missing_folder_of_a_data_file_is_named(tmp_path):
    public.write_yolo(tmp_path)
    (tmp_path / 'data.yaml').write_text('train: missing/images\nnames: [cat]\n')
    with pytest.raises(
        errors.DataError, match="train is 'missing/images', and there is no .*/missing"
    ):
        recognizers.recognize(str(tmp_path))


@pytest.mark.parametrize(
    ('line', 'more', 'kind', 'tasks'),
    [
        # A rectangle of 12 x 6 pixels, turned by 45 degrees, of an image of 30 x 20.
        (
            '0 0.4 0.2 0.541421 0.412132 0.470711 0.518198 0.329289 0.306066',
            '',
            'rotated boxes',
            ('rotated', 'detection'),
        ),
        ('0 0.1 0.1 0.9 0.2 0.5 0.9', '', 'polygons', ('detection', 'instances')),
        ('0 0.5 0.5 0.2 0.4 0.4 0.4 2 0.6 0.6 2', 'kpt_shape: [2, 3]\nflip_idx: [1, 0]\n',
         'boxes with keypoints', ('keypoints', 'detection')),
    ],
)  # fmt: skip
def test_labels_tell_the_tasks(line, more, kind, tasks, tmp_path):
    public.write_yolo(tmp_path / 'set', line, more)
    data, sources, facts = read(tmp_path / 'set', tmp_path / 'run')
    assert data.description == f'YOLO {kind} of data.yaml'
    assert tuple(data.tasks[:2]) == tasks
    assert data.keypoints == sources.train.num_keypoints == (2 if more else 0)
    assert list(data.mirrored_keypoints) == ([1, 0] if more else [])
    assert sources.train.yolo_input_reader.rotated_boxes == (tasks[0] == 'rotated')
    assert facts.num_left_out == 0


def test_class_folders_of_a_data_file(tmp_path):
    public.write_class_folders(tmp_path)
    (tmp_path / 'data.yaml').write_text('train: train\nval: val\nnames: [cat, dog]\n')
    assert recognizers.recognize(str(tmp_path)).tasks == ('classification',)


def test_right_angles_make_rotated_boxes():
    diamond = [(0, 10), (10, 0), (20, 10), (10, 20)]
    square = [(0, 0), (20, 0), (20, 20), (0, 20)]
    kite = [(0, 10), (10, 0), (40, 10), (10, 20)]
    assert yolo_files.are_rotated_boxes([diamond, square])
    assert not yolo_files.are_rotated_boxes([square])
    assert not yolo_files.are_rotated_boxes([diamond, kite])


def test_mirrored_keypoints_by_their_names():
    assert recognizers.mirror_names(['nose', 'left_eye', 'right_eye']) == [0, 2, 1]
    assert recognizers.mirror_names(['left_eye', 'nose']) == []


@pytest.mark.parametrize(
    'names, expected',
    [(['nose', 'tail'], ['nose', 'tail']), ([], ['0', '1']), (['nose', 'nose'], ['0', '1'])],
)
def test_the_label_map_names_keypoints(names, expected):
    data = DataSet('', '', {}, (), keypoints=2, keypoint_names=names)
    classes = reading.name_keypoints(LabelMap.from_names(['cat', 'dog']), data)
    assert [item.keypoints for item in classes.items] == [tuple(enumerate(expected))] * 2


def test_masks_of_class_ids_keep_their_ids(tmp_path):
    public.write_masks(tmp_path / 'set', value=1)
    data, _, facts = read(tmp_path / 'set', tmp_path / 'run')
    assert facts.class_names == ['class_1'] and not data.fields


def test_an_only_folder_is_entered_and_its_test_part_evaluated(tmp_path):
    public.write_yolo(tmp_path / 'set' / 'inner', valid='test')
    (tmp_path / 'set' / 'inner' / 'data.yaml').write_text(
        'train: train/images\ntest: test/images\nnames: [cat, dog]\n'
    )
    _, sources, facts = read(tmp_path / 'set', tmp_path / 'run')
    assert len(facts.evaluation) == 2
    assert sources.notes == ['test is the evaluation: there is no val']


def test_what_nothing_recognizes_is_said_with_what_it_has(tmp_path):
    (tmp_path / 'notes.doc').write_text('x')
    with pytest.raises(errors.DataError, match='it has notes.doc. Expected YOLO.s data.yaml, COCO'):
        recognizers.recognize(str(tmp_path))
    with pytest.raises(errors.DataError, match='there is no such file'):
        recognizers.recognize(str(tmp_path / 'missing'))


def test_a_made_split_is_reproducible_and_its_lists_are_exact(tmp_path):
    public.write_images(tmp_path / 'set' / 'cat', *(f'scene{n // 3}_{n}' for n in range(12)))
    public.write_images(tmp_path / 'set' / 'dog', *(f'scene{n // 3}_{n}' for n in range(12)))
    sizes = []
    for run in ('a', 'b'):
        _, sources, facts = read(tmp_path / 'set', tmp_path / run)
        lists = [
            (tmp_path / run / f'{part}-0.txt').read_text()
            for part in (layouts.TRAIN, layouts.EVALUATION)
        ]
        sizes.append(([len(facts.train), len(facts.evaluation)], lists))
        assert 'whole groups of 8' in sources.notes[0]
    assert sizes[0] == sizes[1]
    assert sizes[0][0] == [18, 6]  # a scene of three of each class


def test_files_that_cannot_be_read_do_not_end_the_search(tmp_path):
    public.write_roboflow_voc(tmp_path / 'voc')
    for path in (tmp_path / 'voc').rglob('*.xml'):
        path.write_bytes(b'<?xml version="1.0" encoding="gb2312"?>\n' + path.read_bytes())
    assert read(tmp_path / 'voc', tmp_path / 'run')[0].description == 'Pascal VOC boxes'
    public.write_coco(tmp_path / 'coco')
    for path in (tmp_path / 'coco').rglob('*.json'):
        content = json.loads(path.read_text())
        content['annotations'].insert(0, 5)
        path.write_text(json.dumps(content))
    assert recognizers.recognize(str(tmp_path / 'coco')).description.startswith('COCO')
    public.write_class_folders(tmp_path / 'folders')
    for path in (tmp_path / 'folders').rglob('*.png'):
        path.write_bytes(b'no image')
    found = recognizers.recognize(str(tmp_path / 'folders'))
    assert found.description.startswith('a folder for each')
