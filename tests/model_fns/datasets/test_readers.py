"""Data sets that are read without a conversion: the same examples as from converted records."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_lib import errors
from estimator_lib.data import corrupt_records, file_examples, inputs
from estimator_lib.data.image_decoding import ADDITIONAL_CHANNELS as KEY
from estimator_lib.run_records import run_file
from estimator_lib.task import IMAGE, SOURCE_ID, Mixing
from model_fns.datasets import codecs, readers
from model_fns.datasets.formats import reader_fields
from model_fns.structures.label_map import LabelMap
from protos import input_reader_pb2, pipeline_pb2
from tests import more_channels
from tests.estimator_lib.data import record_cases as cases
from tests.model_fns.datasets import converted

COUNT = 11
SIZE = 8


class RecordTask(cases.IdTask):
    """Examples that are a hash of their record: equal hashes are equal records."""

    name = 'records'

    def decode(self, serialized):
        parsed = tf.io.parse_single_example(
            serialized, {'image/encoded': tf.io.FixedLenFeature([], tf.string)}
        )
        with tf.control_dependencies([tf.io.decode_png(parsed['image/encoded'])]):
            number = tf.strings.to_hash_bucket_fast(serialized, 2**62)
        return {'id': number, SOURCE_ID: tf.strings.as_string(number)}


class MixingTask(RecordTask):
    """Examples that are combined with two others, like mosaics of images."""

    def mixings(self):
        return [Mixing(lambda example, seed: {**example, 'ids': example['id'][None]}, mix, 3)]

    def prepare(self, example, mode):
        features, labels = super().prepare(example, mode)
        return {**features, IMAGE: example['ids']}, labels


def mix(group, seed):
    del seed
    return {**group[0], 'ids': tf.concat([example['ids'] for example in group], 0)}


def write_voc(folder, stem, name='cat'):
    box = '<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax><ymax>6</ymax></bndbox>'
    folder.mkdir(exist_ok=True)
    (folder / f'{stem}.xml').write_text(
        f'<annotation><object><name>{name}</name>{box}</object></annotation>'
    )


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp('files'))


def write_all(folder):
    """Write the same images, with annotations in each format; return their folder."""
    names = {0: 'cat', 1: 'dog'}
    entries = []
    for part in ('xml', 'labels', 'masks', 'ids'):
        (folder / part).mkdir()
    for index in range(COUNT):
        stem, name = f'image_{index}', names[index % 2]
        for path in (folder / 'images', folder / 'classes' / name):
            converted.write_image(path / f'{stem}.png', SIZE, SIZE, index)
        write_voc(folder / 'xml', stem, name)
        (folder / 'labels' / f'{stem}.txt').write_text(f'{index % 2} 0.5 0.5 0.5 0.25\n')
        ids = np.zeros([SIZE, SIZE], np.uint8)
        ids[2:5, index % 4 :] = 1 + index % 2
        for part in ('masks', 'ids'):
            (folder / part / f'{stem}.png').write_bytes(codecs.encode_png(ids))
        entries.append(
            {
                'id': index,
                'image_id': index,
                'category_id': index % 2,
                'bbox': [1, 1, 4, 5],
                'segmentation': [[1, 1, 5, 1, 5, 6]],
            }
        )
    content = {
        'images': [{'id': i, 'file_name': f'image_{i}.png'} for i in range(COUNT)],
        'categories': [{'id': i, 'name': name} for i, name in names.items()],
        'annotations': entries,
    }
    (folder / 'instances.json').write_text(json.dumps(content))
    (folder / 'labels' / 'classes.txt').write_text('cat\ndog\n')
    write_further(folder, names)
    return folder


def write_further(folder, names):
    """Write the annotations of labelme, of a table and of panoptic segments."""
    (folder / 'labelme').mkdir()
    (folder / 'panoptic').mkdir()
    lines, segments = ['filename,class,xmin,ymin,xmax,ymax'], []
    for index in range(COUNT):
        name = names[index % 2]
        lines.append(f'image_{index}.png,{name},1,1,{2 + index % 4},5')
        shape = {'label': name, 'points': [[1, 1], [6, 1], [6, 2 + index % 4]]}
        text = json.dumps({'shapes': [shape]})
        (folder / 'labelme' / f'image_{index}.json').write_text(text)
        colors = np.zeros([SIZE, SIZE, 3], np.uint8)
        colors[1:4, : 2 + index % 4, 0] = 7
        (folder / 'panoptic' / f'image_{index}.png').write_bytes(codecs.encode_png(colors))
        info = [{'id': 7, 'category_id': index % 2, 'iscrowd': 0}]
        segments.append(
            {'image_id': index, 'file_name': f'image_{index}.png', 'segments_info': info}
        )
    (folder / 'table.csv').write_text('\n'.join(lines))
    content = json.loads((folder / 'instances.json').read_text())
    (folder / 'panoptic.json').write_text(json.dumps({**content, 'annotations': segments}))


FORMATS = {
    'coco': ('images', 'instances.json', ['--no_masks']),
    'voc': ('images', 'xml', []),
    'yolo': ('images', 'labels', ['--no_masks']),
    'folder': ('classes', '', []),
    'mask': ('images', 'masks', []),
    'instance': ('images', 'ids', ['--class_name=cell', '--no_masks']),
    'labelme': ('images', 'labelme', ['--no_masks']),
    'panoptic': ('images', 'panoptic.json', ['--no_masks']),
    'csv': ('images', 'table.csv', []),
}


def reader_of(data, name, *, label_map='', options=None, fields=(), **reader_options):
    images, annotations, _ = FORMATS[name]
    reader_options.setdefault('shuffle_buffer_size', 7)
    path = label_map or str(data / f'{name}.pbtxt')
    reader = input_reader_pb2.InputReader(label_map_path=path, **reader_options)
    message = getattr(reader, f'{name}_input_reader')
    message.image_path.append(str(data / images))
    if annotations:
        message.annotation_path.append(str(data / annotations))
    if name == 'instance':
        message.class_name = 'cell'
    for field, value in dict(fields).items():
        setattr(message, field, value)
    for field, value in (options or {}).items():
        if field in ('list_path', 'additional_channel_path'):
            getattr(message.options, field).append(value)
        else:
            setattr(message.options, field, value)
    return reader


def convert(data, name, prefix, *more):
    images, annotations, flags = FORMATS[name]
    kind = reader_fields.FORMATS[f'{name}_input_reader']
    flags = [*flags, f'--annotations={data / annotations}'] if annotations else flags
    status = converted.run(
        f'--from={kind}',
        f'--images={data / images}',
        f'--label_map={data / f"{name}.pbtxt"}',
        f'--output_prefix={prefix}',
        '--num_shards=1',
        *flags,
        *more,
    )
    assert status == 0


def records_reader(pattern, **fields):
    fields.setdefault('shuffle_buffer_size', 7)
    reader = input_reader_pb2.InputReader(**fields)
    reader.tf_record_input_reader.input_path.extend(
        [pattern] if isinstance(pattern, str) else pattern
    )
    return reader


@pytest.fixture(scope='module')
def records(data):
    """The pattern of the converted records, by format; this writes the label maps too."""
    patterns = {}
    for name in FORMATS:
        convert(data, name, data / 'records' / name)
        patterns[name] = str(data / 'records' / f'{name}-*')
    return patterns


def read(reader, **options):
    return cases.run(reader, task=RecordTask(), **options)


def same(one, other):
    assert (one.ids, one.noise) == (other.ids, other.noise)
    assert one.ids
    for position, expected in zip(one.positions, other.positions):
        np.testing.assert_array_equal(position[:, :2], expected[:, :2])  # not the fingerprints


@pytest.mark.parametrize('name', list(FORMATS))
def test_files_give_the_examples_of_converted_records(data, records, name):
    from_files = read(reader_of(data, name), batches=7)
    same(from_files, read(records_reader(records[name]), batches=7))
    assert len(set(from_files.all_ids)) == COUNT


def write_channels(folder):
    """Write two channels for each image: of 12 bits, and of 8; and dark images of 12 bits."""
    for index in range(COUNT):
        deep = np.full([SIZE, SIZE], 300 + index)
        for name in ('near', 'deep'):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / f'image_{index}.png').write_bytes(more_channels.deep_png(deep))
        converted.write_image(folder / 'far' / f'image_{index}.png', SIZE, SIZE, 100 + index)
    return folder / 'near', folder / 'far'


@pytest.mark.parametrize('name', ['voc', 'folder', 'mask'])
def test_further_channels_are_those_of_converted_records(data, records, tmp_path, name):
    folders = write_channels(tmp_path)
    reader = reader_of(data, name, num_additional_channels=2)
    message = getattr(reader, f'{name}_input_reader')
    message.options.additional_channel_path.extend(map(str, folders))
    flags = [f'--additional_channels={folder}' for folder in folders]
    convert(data, name, tmp_path / 'records', *flags)
    from_files = read(reader, batches=7)
    same(from_files, read(records_reader(f'{tmp_path}/records-*'), batches=7))
    assert from_files.ids != read(reader_of(data, name), batches=7).ids
    described = run_file.describe_data(reader)['files']
    assert described == run_file.describe_data(reader_of(data, name))['files'] + 2 * COUNT
    # Each folder of images has folders of its own.
    options = message.options
    message.image_path.append(message.image_path[0])
    if name != 'folder':
        message.annotation_path.append(message.annotation_path[0])
    options.additional_channel_path.extend(map(str, folders[::-1]))
    first, second = (
        tf.train.Example.FromString(files.examples.read(0)).features.feature[KEY].bytes_list.value
        for files in inputs.input_files(reader)
    )
    assert list(first) == list(second)[::-1]


def test_images_keep_their_bits(data, records, tmp_path):
    """Without `image_bits`, these would be black and are refused."""
    write_channels(tmp_path)
    reader = reader_of(data, 'csv', image_bits=12)
    reader.csv_input_reader.image_path[0] = str(tmp_path / 'deep')
    (files,) = inputs.input_files(reader)
    feature = tf.train.Example.FromString(files.examples.read(0)).features.feature
    stem = feature['image/filename'].bytes_list.value[0].decode()
    assert feature['image/encoded'].bytes_list.value[0] == (tmp_path / 'deep' / stem).read_bytes()
    reader.ClearField('image_bits')
    with pytest.raises(file_examples.UnusableFileError, match='options.bits'):
        inputs.input_files(reader)[0].examples.read(0)


def test_an_evaluation_reads_all_once(data, records):
    from_files = read(reader_of(data, 'voc'), mode=cases.EVAL)
    same(from_files, read(records_reader(records['voc']), mode=cases.EVAL))
    assert len(from_files.all_ids) == COUNT and from_files.ended


@pytest.mark.parametrize(
    'fields',
    [{'sample_1_of_n_examples': 3}, {'cache': 'RECORDS'}, {'cache': 'MEMORY'}, {'shuffle': False}],
    ids=str,
)
def test_fields_of_readers_mean_the_same(data, records, fields):
    from_files = read(reader_of(data, 'yolo', **fields), batches=7)
    same(from_files, read(records_reader(records['yolo'], **fields), batches=7))


def test_workers_share_the_files(data, records):
    shares = []
    for index in range(2):
        options = {'batches': 6, 'shard': (index, 2), 'batch_size': 2}
        shares.append(read(reader_of(data, 'voc', num_epochs=1), **options))
        same(shares[-1], read(records_reader(records['voc'], num_epochs=1), **options))
    first, second = (set(share.all_ids) for share in shares)
    assert not first & second and len(first | second) == COUNT - 1  # one is of no full batch


@pytest.fixture(scope='module')
def two_sets(data, records):
    """Data sets of a reader, and their records: voc with all images, and with a list of them."""
    (data / 'some.txt').write_text('image_1\nimage_4\nimage_6\n')
    convert(data, 'voc', data / 'records' / 'some', f'--list={data / "some.txt"}')
    (data / 'all.txt').write_text('\n'.join(f'image_{index}' for index in range(COUNT)))
    reader = reader_of(data, 'voc', options={'list_path': str(data / 'all.txt')})
    message = reader.voc_input_reader
    message.image_path.append(message.image_path[0])
    message.annotation_path.append(message.annotation_path[0])
    message.options.list_path.append(str(data / 'some.txt'))
    return reader, [records['voc'], str(data / 'records' / 'some-*')]


@pytest.mark.parametrize(
    'fields',
    [{'sample_from_datasets_weights': [0.3, 0.7]}, {'examples_per_batch': [1, 3]}, {}],
    ids=str,
)
def test_data_sets_are_mixed_like_paths_of_records(two_sets, fields):
    reader = input_reader_pb2.InputReader(**fields)
    reader.MergeFrom(two_sets[0])
    expected = read(records_reader(two_sets[1], **fields), batches=9)
    if fields:
        return same(read(reader, batches=9), expected)
    # One source of two files, whose order among each other is by their paths.
    assert sorted(read(reader, batches=7).all_ids[:14]) == sorted(expected.all_ids[:14])


@pytest.mark.parametrize('name', ['folder', 'yolo'])
def test_a_part_of_a_split_is_that_of_the_converter(data, records, name):
    split = 'train:0.7,val:0.3'
    convert(data, name, data / 'records' / f'{name}_parts', f'--split={split}', '--seed=3')
    seen = []
    for part in ('train', 'val'):
        options = {'split': split, 'part': part, 'seed': 3}
        from_files = read(reader_of(data, name, options=options), mode=cases.EVAL)
        pattern = str(data / 'records' / f'{name}_parts-{part}-*')
        same(from_files, read(records_reader(pattern), mode=cases.EVAL))
        seen += from_files.all_ids
    assert len(set(seen)) == len(seen) == COUNT


@pytest.mark.parametrize(('kind', 'stop'), [('one', 4), ('two', 1), ('two', 8)])
def test_a_resumed_run_continues_with_the_next_example(data, two_sets, kind, stop):
    reader = reader_of(data, 'voc', shuffle_buffer_size=64)
    if kind == 'two':
        reader.CopyFrom(two_sets[0])
        reader.sample_from_datasets_weights.extend([0.3, 0.7])
    made = cases.Input(reader, task=RecordTask())
    whole = made.read(9)
    rest = made.read(9 - stop, whole.positions[stop - 1])
    assert (rest.ids, rest.noise) == (whole.ids[stop:], whole.noise[stop:])
    np.testing.assert_array_equal(rest.positions, whole.positions[stop:])


@pytest.mark.parametrize('stop', [2, 5])
def test_a_resumed_run_combines_the_same_images(data, records, stop):
    made = cases.Input(reader_of(data, 'voc'), task=MixingTask())
    whole = made.read(7)
    rest = made.read(7 - stop, whole.positions[stop - 1])
    np.testing.assert_array_equal(rest.ids, whole.ids[stop:])
    expected = cases.run(records_reader(records['voc']), task=MixingTask(), batches=7)
    np.testing.assert_array_equal(whole.ids, expected.ids)
    assert np.shape(whole.ids) == (7, 4, 3)


def test_files_before_the_position_are_not_read(data, records, monkeypatch):
    opened = []
    original = readers.ConvertedFiles.read

    def recorded(self, index):
        opened.append(index)
        return original(self, index)

    made = cases.Input(reader_of(data, 'folder', num_epochs=1), task=RecordTask())
    whole = made.read()
    monkeypatch.setattr(readers.ConvertedFiles, 'read', recorded)
    made.read(None, whole.positions[-1])
    assert len(opened) == COUNT % 4  # those behind the last whole batch


@pytest.fixture
def damaged(data, tmp_path):
    """Images with a text in place of a picture, an unknown class, and a box that is inverted."""
    for index in range(6):
        converted.write_image(tmp_path / 'images' / f'{index}.png', SIZE, SIZE, index)
        write_voc(tmp_path / 'xml', str(index), 'mouse' if index == 3 else 'cat')
    (tmp_path / 'images' / '1.png').write_text('no picture')
    text = (tmp_path / 'xml' / '4.xml').read_text()
    (tmp_path / 'xml' / '4.xml').write_text(text.replace('<ymax>6', '<ymax>-6'))
    LabelMap.from_names(['cat']).write(str(tmp_path / 'map.pbtxt'))
    (tmp_path / 'records').mkdir()
    return tmp_path


def damaged_reader(damaged, **fields):
    reader = input_reader_pb2.InputReader(
        label_map_path=str(damaged / 'map.pbtxt'), shuffle=False, **fields
    )
    reader.voc_input_reader.image_path.append(str(damaged / 'images'))
    reader.voc_input_reader.annotation_path.append(str(damaged / 'xml'))
    return reader


def test_skipped_files_are_those_of_the_converter(damaged, monkeypatch):
    status = converted.run(
        '--from=voc',
        f'--images={damaged / "images"}',
        f'--annotations={damaged / "xml"}',
        f'--label_map={damaged / "map.pbtxt"}',
        f'--output_prefix={damaged / "records" / "all"}',
        '--num_shards=1',
        '--on_error=skip',
    )
    assert status == 0
    warnings = []
    monkeypatch.setattr(
        logging.Logger, 'warning', lambda _, text, *rest: warnings.append(text % rest)
    )
    reader = damaged_reader(damaged, corrupt_record_policy='SKIP')
    from_files = read(reader, mode=cases.EVAL, batch_size=1)
    expected = read(
        records_reader(str(damaged / 'records' / 'all-*'), shuffle=False),
        mode=cases.EVAL,
        batch_size=1,
    )
    assert from_files.ids == expected.ids and len(from_files.ids) == 3
    # Two have lost their only object. The count is of those before the last example.
    stems = [item.stem for item in readers._list_files(reader, 0).items]
    last = max(index for index, stem in enumerate(stems) if stem not in '134')
    assert from_files.skipped[-1] == sum(stem in '134' for stem in stems[:last])
    assert f'skipped {damaged / "images" / "1.png"}: the image starts with' in '\n'.join(warnings)


def test_a_bad_file_ends_the_run_with_one_sentence(damaged):
    made = cases.Input(damaged_reader(damaged), task=RecordTask(), batch_size=1)
    with pytest.raises(corrupt_records.SESSION_ERRORS) as raised:
        made.read()
    error = made.input_fn.failure(raised.value)
    assert isinstance(error, errors.DataError)
    order = [item.stem for item in readers._list_files(damaged_reader(damaged), 0).items]
    first = min('134', key=order.index)
    problem = {
        '1': "1.png: the image starts with b'no pictu', and is not a JPEG, PNG, GIF, BMP, WebP or",
        '3': "3.xml: object 1: class 'mouse' is not in the label map",
        '4': '4.xml: object 1: the box [1, 1, -6, 5] (ymin, xmin, ymax, xmax) is inverted',
    }[first]
    assert problem in str(error) and '\n' not in str(error)


def test_images_without_their_bad_objects_are_examined(damaged):
    path = damaged / 'xml' / '4.xml'
    text = path.read_text()
    sound = '<object>' + text.replace('<ymax>-6', '<ymax>6').partition('<object>')[2]
    path.write_text(text.replace('</annotation>', sound))
    examined = []
    for policy in ('FAIL', 'SKIP'):
        reader = damaged_reader(damaged, corrupt_record_policy=policy)
        records = []
        inputs.inspect_records(RecordTask(), reader, check_all=True, examine=records.append)
        examined.append(len(records))
    # Image 4 loses one of two objects, image 3 its only one; image 1 cannot be decoded.
    assert examined[1] == examined[0] + 1


def test_a_box_that_reaches_out_of_its_image_is_clipped_by_the_default_policy(tmp_path):
    converted.write_image(tmp_path / 'images' / 'a.png', SIZE, SIZE)
    write_voc(tmp_path / 'xml', 'a')
    path = tmp_path / 'xml' / 'a.xml'
    text = path.read_text()
    path.write_text(text.replace('<xmax>5', '<xmax>12'))
    LabelMap.from_names(['cat']).write(str(tmp_path / 'map.pbtxt'))
    records = []
    problems = inputs.inspect_records(
        RecordTask(), damaged_reader(tmp_path), examine=records.append
    )
    assert not problems and len(records) == 1
    # x from 1 to 12 and y from 1 to 6, of 8 pixels.
    features = tf.train.Example.FromString(records[0]).features.feature
    sides = ('ymin', 'xmin', 'ymax', 'xmax')
    box = [features[f'image/object/bbox/{side}'].float_list.value[0] for side in sides]
    assert box == [0.125, 0.125, 0.75, 1.0]
    # Nothing is left of a box that is outside as a whole.
    path.write_text(text.replace('<xmin>1', '<xmin>9').replace('<xmax>5', '<xmax>12'))
    (problem,) = inputs.inspect_records(RecordTask(), damaged_reader(tmp_path))
    assert 'a.xml: object 1: the box [1, 9, 6, 12]' in str(problem)
    assert 'is outside of the image, which has 8 x 8 pixels' in str(problem)


@pytest.mark.parametrize('policy', ['FAIL', 'SKIP'])
def test_check_lists_all_bad_files(damaged, policy):
    reader = damaged_reader(damaged, corrupt_record_policy=policy)
    problems = inputs.inspect_records(RecordTask(), reader, check_all=True)
    texts = '\n'.join(map(str, problems))
    assert len(problems) == 3, texts
    for stem, end in (('1', 'png: the image starts'), ('3', 'xml: object 1: class'), ('4', 'xml')):
        assert f'{stem}.{end}' in texts
    assert 'record' not in texts


def test_an_image_that_does_not_decode_is_named(data, records, tmp_path):
    for name in ('cat', 'dog'):
        converted.write_image(tmp_path / name / 'a.png', SIZE, SIZE)
    path = tmp_path / 'dog' / 'a.png'
    path.write_bytes(path.read_bytes()[:-20])  # its header is in order
    reader = input_reader_pb2.InputReader(label_map_path=str(data / 'folder.pbtxt'))
    reader.folder_input_reader.image_path.append(str(tmp_path))
    made = cases.Input(reader, task=RecordTask(), batch_size=1)
    with pytest.raises(corrupt_records.SESSION_ERRORS) as raised:
        made.read(2)
    error = str(made.input_fn.failure(raised.value))
    assert error.startswith(f'{path}: ') and 'record 0' not in error


def test_a_corrupt_data_set_is_refused_before_it_is_read(data, records, tmp_path):
    content = json.loads((data / 'instances.json').read_text())
    content['annotations'][0]['image_id'] = 99
    (tmp_path / 'instances.json').write_text(json.dumps(content))
    reader = reader_of(data, 'coco')
    reader.coco_input_reader.annotation_path[0] = str(tmp_path / 'instances.json')
    with pytest.raises(errors.DataError, match='image_id is 99(.|\n)*corrupt_record_policy: SKIP'):
        inputs.input_files(reader)
    reader.corrupt_record_policy = input_reader_pb2.SKIP
    assert inputs.count_records(inputs.input_files(reader)) == COUNT


MISTAKES = {
    'no folder': ({'fields': {}}, 'image_path', 'there is no such folder'),
    'no part': ({'options': {'split': 'a:0.5,b:0.5', 'part': 'c'}}, '', "options.part is 'c'"),
    'split': ({'options': {'split': 'a:0.5,b:0.4', 'part': 'a'}}, '', 'options.split: .* adds up'),
    'list': ({'options': {'list_path': 'nothing.txt'}}, '', 'options.list_path: there is no file'),
    'channels': (
        {'options': {'additional_channel_path': 'nowhere'}},
        '',
        'options.additional_channel_path: nowhere: there is no such folder',
    ),
    'values': ({'fields': {'mask_values': 'x'}}, '', "mask_values: 'x' is not of the form"),
}


@pytest.mark.parametrize('case', list(MISTAKES))
def test_mistakes_are_named_by_their_fields(data, records, case):
    changes, field, said = MISTAKES[case]
    reader = reader_of(data, 'mask', **changes)
    if field:
        getattr(reader.mask_input_reader, field)[0] = str(data / 'nowhere')
    with pytest.raises(errors.UserError, match=f'^mask_input_reader: .*{said}') as raised:
        inputs.input_files(reader)
    assert '--' not in str(raised.value)


def test_files_without_a_label_map_field_are_refused(data):
    reader = reader_of(data, 'voc')
    reader.ClearField('label_map_path')
    with pytest.raises(errors.ConfigError, match='label_map_path is not set'):
        inputs.input_files(reader)


def test_a_label_map_that_cannot_be_written_gets_one_sentence(data, tmp_path):
    (tmp_path / 'file').write_text('')
    config = pipeline_pb2.TrainEvalPipelineConfig()
    path = str(tmp_path / 'file' / 'map.pbtxt')
    config.train_input_reader.CopyFrom(reader_of(data, 'folder', label_map=path))
    with pytest.raises(errors.DataError, match='map.pbtxt: the label map cannot be written there'):
        readers.write_label_maps(config)


def test_a_label_map_is_written_where_there_is_none(data, tmp_path):
    config = pipeline_pb2.TrainEvalPipelineConfig()
    path = str(tmp_path / 'new' / 'map.pbtxt')
    config.train_input_reader.CopyFrom(reader_of(data, 'folder', label_map=path))
    readers.write_label_maps(config)
    assert list(LabelMap.read(path).names.values()) == ['cat', 'dog']
    LabelMap.from_names(['dog', 'cat']).write(path)
    readers.write_label_maps(config)
    assert list(LabelMap.read(path).names.values()) == ['dog', 'cat']
    # An example has the label of the new map.
    (files,) = inputs.input_files(config.train_input_reader)
    example = tf.train.Example.FromString(files.examples.read(0)).features.feature
    name = example['image/class/text'].bytes_list.value[0]
    assert example['image/class/label'].int64_list.value[0] == [b'dog', b'cat'].index(name) + 1


def test_run_json_describes_the_files(data, records, tmp_path):
    reader = reader_of(data, 'voc')
    described = run_file.describe_data(reader)
    paths = [*(data / 'images').iterdir(), *(data / 'xml').iterdir()]
    assert (described['files'], described['records']) == (2 * COUNT, COUNT)
    assert described['bytes'] == sum(path.stat().st_size for path in paths)
    for name in ('images', 'xml'):
        (tmp_path / name).mkdir()
        for path in (data / name).iterdir():
            (tmp_path / name / path.name).write_bytes(path.read_bytes())
    moved = reader_of(tmp_path, 'voc', label_map=str(data / 'voc.pbtxt'))
    assert run_file.describe_data(moved) == described
    write_voc(tmp_path / 'xml', 'image_0', 'a longer name')
    readers.forget_listings()  # as in another process
    assert run_file.describe_data(moved)['sha256'] != described['sha256']


@pytest.mark.parametrize('name', ['coco', 'labelme', 'yolo'])
def test_class_masks_are_those_of_the_converter(data, records, name):
    convert(data, name, data / 'records' / f'{name}_classes', '--class_masks')
    reader = reader_of(data, name, fields={'class_masks': True})
    (files,) = inputs.input_files(reader)
    made = [files.examples.read(index) for index in range(COUNT)]
    assert made == converted.serialized_records(data / 'records' / f'{name}_classes')
    assert b'image/segmentation/class/encoded' in made[0]


def test_masks_are_drawn_where_they_are_read(data, records):
    reader = reader_of(data, 'coco', load_instance_masks=True)
    (files,) = inputs.input_files(reader)
    example = tf.train.Example.FromString(files.examples.read(0)).features.feature
    assert len(example['image/object/mask'].bytes_list.value) == 1
