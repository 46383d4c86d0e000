"""`--mode=predict` through the front door: what it reads, skips and writes."""

import contextlib
import csv
import io
import json
import shutil
import sys
from xml.etree import ElementTree

import numpy as np
import pycocotools.coco
import pytest
from PIL import Image

from tests import tiny_data, tiny_detection
from tests.model_fns.datasets.files import test_videos
from tests.test_run_train_eval import front_door, latest

pytestmark = pytest.mark.usefixtures('shallow_networks')


def export_of(folder, data):
    """An export after one step, whose training data is gone, in another place."""
    (folder / 'data').mkdir()
    config = data.write_all(folder / 'data')
    flags = [f'--model_dir={folder / "run"}', f'--pipeline_config_path={config}']
    assert front_door('--mode=train', *flags, '--num_train_steps=1') == 0
    shutil.move(latest(folder / 'run' / 'export' / 'final'), folder / 'model')
    shutil.rmtree(folder / 'data')
    return folder / 'model'


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    return export_of(tmp_path_factory.mktemp('classifier'), tiny_data)


@pytest.fixture(scope='module')
def detector(tmp_path_factory):
    return export_of(tmp_path_factory.mktemp('detector'), tiny_detection)


def save_images(folder, count, ending='.png', seed=0, size=40):
    folder.mkdir(parents=True, exist_ok=True)
    for index, (_, array) in enumerate(tiny_data.colored_images(count, size, seed)):
        Image.fromarray(array).save(folder / f'{index:03d}{ending}')
    return folder


def predict(model, images, out, *flags):
    return front_door(
        '--mode=predict',
        f'--saved_model_dir={model}',
        f'--images={images}',
        f'--output_dir={out}',
        *flags,
    )


def read_json(out, name='predictions.json'):
    return json.loads((out / name).read_text())


def test_forty_images_of_which_three_are_broken(classifier, tmp_path, capsys):
    folder = save_images(tmp_path / 'images', 40)
    whole = (folder / '007.png').read_bytes()
    for name, content in (('007', whole[:200]), ('020', b''), ('039', b'<html>')):
        (folder / f'{name}.png').write_bytes(content)
    assert predict(classifier, folder, tmp_path / 'out') == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f'images predicted: 37, skipped: 3; {tmp_path / "out"}'
    listed = [line for line in said if line.startswith('skipped: ')]
    assert [line.split(': ')[1] for line in listed] == [
        str(folder / f'{name}.png') for name in ('007', '020', '039')
    ]
    assert len(list((tmp_path / 'out').glob('*.png'))) == 37
    assert len(read_json(tmp_path / 'out')) == 37


def test_a_bad_image_ends_it_when_asked(classifier, tmp_path, capsys):
    folder = save_images(tmp_path / 'images', 3)
    (folder / '001.png').write_bytes(b'')
    assert predict(classifier, folder, tmp_path / 'out', '--on_error=fail') == 2
    said = capsys.readouterr().err
    assert f'error: {folder}/001.png: the image is empty' in said and 'Traceback' not in said


def test_pictures_of_equal_names_do_not_overwrite_each_other(classifier, tmp_path):
    folder = save_images(tmp_path / 'images', 1, '.png')
    save_images(folder, 1, '.jpg')
    save_images(folder / 'in', 1, '.png')
    assert predict(classifier, folder, tmp_path / 'out') == 0
    pictures = sorted(path.name for path in (tmp_path / 'out').glob('*.png'))
    assert pictures == ['000.jpg.png', '000.png.png', 'in-000.png.png']
    assert len(read_json(tmp_path / 'out')) == 3


def test_pictures_do_not_overwrite_images(classifier, tmp_path, capsys):
    folder = save_images(tmp_path / 'images', 2)
    before = (folder / '000.png').read_bytes()
    assert predict(classifier, folder, folder) == 2
    assert 'expected another folder' in capsys.readouterr().err
    assert (folder / '000.png').read_bytes() == before


def test_records_are_predicted(classifier, tmp_path):
    tiny_data.write_records(tmp_path / 'val-00000-of-00002.tfrecord', 3)
    tiny_data.write_records(tmp_path / 'val-00001-of-00002.tfrecord', 2)
    assert predict(classifier, f'{tmp_path}/val-*.tfrecord', tmp_path / 'out') == 0
    names = [name.replace(str(tmp_path), '') for name in read_json(tmp_path / 'out')]
    assert names == [f'/val-00000-of-00002.tfrecord#0000{n}' for n in range(3)] + [
        f'/val-00001-of-00002.tfrecord#0000{n}' for n in range(2)
    ]
    assert len(list((tmp_path / 'out').glob('*.png'))) == 5


def test_a_list_is_predicted(classifier, tmp_path):
    save_images(tmp_path, 3)
    (tmp_path / 'list.txt').write_text('002.png\n000.png\n')
    assert predict(classifier, tmp_path / 'list.txt', tmp_path / 'out') == 0
    assert list(read_json(tmp_path / 'out')) == [
        f'{tmp_path}/{name}.png' for name in ('000', '002')
    ]


def test_how_many_classes_are_told(classifier, tmp_path):
    folder = save_images(tmp_path / 'images', 1)
    assert predict(classifier, folder, tmp_path / 'all') == 0
    assert predict(classifier, folder, tmp_path / 'one', '--top_k=1', '--output_format=csv') == 0
    (found,) = read_json(tmp_path / 'all').values()
    assert sorted(one['id'] for one in found['classes']) == [1, 2, 3]
    scores = [one['score'] for one in found['classes']]
    threshold = f'--score_threshold={(scores[0] + scores[1]) / 2}'
    assert predict(classifier, folder, tmp_path / 'few', threshold, '--raw') == 0
    (few,) = read_json(tmp_path / 'few').values()
    best = found['classes'][0]
    assert few['classes'] == [best]
    assert max(few['raw']['probabilities']) == pytest.approx(best['score'], abs=1e-6)
    (row,) = csv.DictReader(io.StringIO((tmp_path / 'one' / 'predictions.csv').read_text()))
    image = str(folder / '000.png')
    expected = {'image': image, 'class': best['class'], 'id': str(best['id'])}
    assert row == {**expected, 'score': str(best['score'])}


def test_detections_are_those_of_the_raw_outputs(detector, tmp_path):
    """Boxes in pixels of images that are not square, by hand from the model's own outputs."""
    image = np.random.RandomState(0).randint(0, 256, [50, 80, 3]).astype(np.uint8)
    Image.fromarray(image).save(tmp_path / 'a.png')
    assert predict(detector, tmp_path / 'a.png', tmp_path / 'out', '--raw', '--top_k=4') == 0
    plain = predict(detector, tmp_path / 'a.png', tmp_path / 'b', '--score_threshold=0')
    assert plain == 0
    (found,) = read_json(tmp_path / 'b').values()
    raw = next(iter(read_json(tmp_path / 'out').values()))['raw']
    assert set(found) == {'height', 'width', 'detections'}
    assert (found['height'], found['width']) == (50, 80)
    assert len(found['detections']) == raw['num_detections'] > 4
    for index in (0, 3):
        one = found['detections'][index]
        top, left, bottom, right = raw['detection_boxes'][index]
        box = [one[side] for side in ('ymin', 'xmin', 'ymax', 'xmax')]
        assert box == pytest.approx([top * 50, left * 80, bottom * 50, right * 80], abs=0.006)
        assert one['score'] == pytest.approx(raw['detection_scores'][index], abs=1e-6)
        assert one['class'] == {1: 'green', 2: 'blue'}[raw['detection_classes'][index]]


def test_coco_results_are_evaluated_by_the_published_tool(detector, tmp_path):
    random = np.random.RandomState(1)
    images = tmp_path / 'images'
    images.mkdir()
    annotations = []
    for number in (7, 139):
        array, boxes, ids = tiny_detection.scene(random)
        Image.fromarray(array).save(images / f'{number:012d}.png')
        for box, class_id in zip(boxes * tiny_detection.SIZE, ids):
            top, left, bottom, right = map(float, box)
            annotations.append(
                {
                    'id': len(annotations) + 1,
                    'image_id': number,
                    'category_id': int(class_id),
                    'bbox': [left, top, right - left, bottom - top],
                    'area': (right - left) * (bottom - top),
                    'iscrowd': 0,
                }
            )
    truth = {
        'images': [{'id': 7}, {'id': 139}],
        'annotations': annotations,
        'categories': [{'id': 1, 'name': 'green'}, {'id': 2, 'name': 'blue'}],
    }
    (tmp_path / 'truth.json').write_text(json.dumps(truth))
    assert predict(detector, images, tmp_path / 'out', '--output_format=coco') == 0
    assert [one['id'] for one in read_json(tmp_path / 'out', 'images.json')['images']] == [7, 139]
    results = read_json(tmp_path / 'out')
    # Average precision needs the detections with low scores too.
    assert min(one['score'] for one in results) < 0.5
    with contextlib.redirect_stdout(io.StringIO()):
        groundtruth = pycocotools.coco.COCO(str(tmp_path / 'truth.json'))
        loaded = groundtruth.loadRes(str(tmp_path / 'out' / 'predictions.json'))
    assert len(loaded.getAnnIds()) == len(results) > 0
    assert set(loaded.getImgIds()) == {7, 139}


def test_annotations_are_the_detections_of_the_json(detector, tmp_path):
    """YOLO's centers and Pascal VOC's sides by hand from the boxes of the JSON file."""
    image = np.random.RandomState(0).randint(0, 256, [50, 80, 3]).astype(np.uint8)
    Image.fromarray(image).save(tmp_path / 'a.png')
    out = tmp_path / 'out'
    for output_format in ('json', 'yolo', 'voc'):
        flags = ['--score_threshold=0', '--top_k=4', f'--output_format={output_format}']
        assert predict(detector, tmp_path / 'a.png', out, *flags) == 0
    (expected,) = (one['detections'] for one in read_json(out).values())
    assert (out / 'classes.txt').read_text() == 'green\nblue\n'
    lines = (out / 'labels' / 'a.txt').read_text().splitlines()
    objects = list(ElementTree.parse(out / 'Annotations' / 'a.xml').getroot().iter('object'))
    assert len(lines) == len(objects) == len(expected) == 4
    for one, line, entry in zip(expected, lines, objects):
        top, left, bottom, right = (one[side] for side in ('ymin', 'xmin', 'ymax', 'xmax'))
        number, *box = map(float, line.split())
        assert number == one['id'] - 1
        center = [(left + right) / 160, (top + bottom) / 100]
        assert box == pytest.approx(
            [*center, (right - left) / 80, (bottom - top) / 50], abs=0.01 / 50
        )
        assert entry.findtext('name') == one['class']
        sides = [float(entry.findtext(f'bndbox/{side}')) for side in ('ymin', 'xmin', 'ymax')]
        assert sides == pytest.approx([top, left, bottom], abs=0.011)


@pytest.mark.parametrize('output_format', ['yolo', 'voc'])
def test_annotations_of_a_data_set_stay(detector, tmp_path, capsys, output_format):
    folder = save_images(tmp_path / 'images', 1)
    for name in ('labels', 'Annotations'):
        (tmp_path / name).mkdir()
        (tmp_path / name / '000.txt').write_text('by hand')
    assert predict(detector, folder, tmp_path, f'--output_format={output_format}') == 2
    assert 'has annotations of another program' in capsys.readouterr().err


def test_the_score_threshold_is_that_of_the_pictures(detector, tmp_path):
    """A threshold above all scores: the picture is the image alone."""
    folder = save_images(tmp_path / 'images', 1, size=600)
    assert predict(detector, folder, tmp_path / 'none', '--score_threshold=0.999') == 0
    assert predict(detector, folder, tmp_path / 'all', '--score_threshold=0.0') == 0
    picture, drawn = (
        np.asarray(Image.open(tmp_path / name / '000.png')) for name in ('none', 'all')
    )
    np.testing.assert_array_equal(picture, np.asarray(Image.open(folder / '000.png')))
    assert (picture != drawn).any()


def test_images_of_too_many_pixels_are_not_decoded(classifier, tmp_path, capsys):
    """By the config that travels with the model, where the proto's default does not say."""
    model = tmp_path / 'model'
    shutil.copytree(classifier, model)
    config = model / 'assets.extra' / 'pipeline.config'
    text = config.read_text().replace(
        'train_input_reader {', 'train_input_reader { max_image_pixels: 1600', 1
    )
    config.write_text(
        text.replace('eval_input_reader {', 'eval_input_reader { max_image_pixels: 1600')
    )
    folder = save_images(tmp_path / 'images', 2, size=40)
    save_images(tmp_path / 'larger', 1, '.jpg', size=41)
    shutil.copy(tmp_path / 'larger' / '000.jpg', folder / 'a.jpg')
    assert predict(model, folder, tmp_path / 'out') == 0
    said = capsys.readouterr().out
    assert 'images predicted: 2, skipped: 1' in said
    assert 'a.jpg: the image has 1681 pixels; expected at most 1600 (max_image_pixels).' in said


def test_turned_images_stand_upright(classifier, tmp_path):
    array = np.zeros([320, 480, 3], np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(array).save(tmp_path / 'a.jpg', exif=exif)
    Image.fromarray(array).save(tmp_path / 'b.webp')
    Image.fromarray(array).save(tmp_path / 'c.tiff')
    heights = {}
    for how in ('apply', 'ignore'):
        out = tmp_path / how
        assert predict(classifier, f'{tmp_path}/*.*', out, f'--exif={how}') == 0
        heights[how] = {path.stem: Image.open(path).height for path in out.glob('*.png')}
    assert {name: heights['apply'][name] - heights['ignore'][name] for name in 'abc'} == {
        'a': 160,
        'b': 0,
        'c': 0,
    }


BAD = {
    'unfilled images': (
        'gs://${DATA}/*.png',
        '{tmp}/out',
        [],
        "--images: 'gs://${DATA}/*.png' is a",
    ),
    'an unfilled folder': ('{tmp}/in', '${OUT}/out', [], '--output_dir: '),
    'a folder as the only image': ('{tmp}/*.png', '{tmp}/out', [], 'it is a folder'),
    'a folder without images': ('{tmp}/empty', '{tmp}/out', [], 'has no images'),
    'no match': ('{tmp}/*.gif', '{tmp}/out', [], 'no file matches'),
    'output that is a file': ('{tmp}/in', '{tmp}/file', [], 'file is a file; expected a folder'),
    'raw in a table': ('{tmp}/in', '{tmp}/out', ['--raw', '--output_format=csv'], '--raw: csv'),
    'coco of classes': ('{tmp}/in', '{tmp}/out', ['--output_format=coco'], 'COCO has no results'),
    'yolo of classes': ('{tmp}/in', '{tmp}/out', ['--output_format=yolo'], 'finds none; expected'),
    'voc of classes': ('{tmp}/in', '{tmp}/out', ['--output_format=voc'], 'finds none; expected'),
    'unknown format': ('{tmp}/in', '{tmp}/out', ['--output_format=xml'], 'output_format'),
    'no class at all': ('{tmp}/in', '{tmp}/out', ['--top_k=0'], 'top_k'),
    'two models': ('{tmp}/in', '{tmp}/out', ['--model_dir=x'], 'expected one of them'),
    'no such signature': ('{tmp}/in', '{tmp}/out', ['--signature_name=x'], "signature 'x'; it has"),
}


@pytest.mark.parametrize('case', sorted(BAD))
def test_bad_input_gets_one_sentence(case, classifier, tmp_path, capsys):
    images, out, flags, expected = BAD[case]
    images, out = (text.replace('{tmp}', str(tmp_path)) for text in (images, out))
    save_images(tmp_path / 'in', 1)
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'folder.png').mkdir()
    (tmp_path / 'file').write_text('text')
    assert predict(classifier, images, out, *flags) == 2
    said = capsys.readouterr().err
    assert expected in said and 'Traceback' not in said


def test_a_video_becomes_an_annotated_one_and_a_line_for_each_frame(detector, tmp_path, capsys):
    """The lines are the predictions of the same frames as images."""
    pytest.importorskip('cv2', reason='the extra [video] is not installed')
    clip = test_videos.write_video(tmp_path / 'clip.mp4', 10)
    flags = ['--score_threshold=0', '--top_k=3']
    assert predict(detector, clip, tmp_path / 'out', *flags) == 0
    said = capsys.readouterr()
    assert f'videos predicted: 1, skipped: 0; {tmp_path / "out"}' in said.out
    assert 'frame/s' not in said.err  # not a terminal
    names = sorted(path.name for path in (tmp_path / 'out').iterdir())
    assert names == ['clip.jsonl', 'clip.mp4']
    lines = [json.loads(line) for line in (tmp_path / 'out' / 'clip.jsonl').open()]
    frames = test_videos.read(clip)
    for index, frame in enumerate(frames):
        Image.fromarray(frame.pixels).save(tmp_path / f'{index}.png')
    assert predict(detector, f'{tmp_path}/*.png', tmp_path / 'images', *flags) == 0
    expected = read_json(tmp_path / 'images')
    assert len(lines) == len(expected) == 10
    for index, line in enumerate(lines):
        assert (line.pop('frame'), line.pop('time')) == (index, index / 10)
        as_image = expected[f'{tmp_path}/{index}.png']
        assert len(line['detections']) == 3 and line.keys() == as_image.keys()
        for one, other in zip(line['detections'], as_image['detections']):
            assert one.pop('class') == other.pop('class')
            assert one == pytest.approx(other, abs=0.011)
    written = test_videos.read(tmp_path / 'out' / 'clip.mp4')
    drawn = np.asarray(Image.open(tmp_path / 'images' / '7.png')).astype(int)
    assert len(written) == 10 and written[7].pixels.shape == drawn.shape
    # Compressed, it is still nearer to its own picture than to the plain frame.
    plain = np.asarray(Image.fromarray(frames[7].pixels).resize(drawn.shape[1::-1])).astype(int)
    nearness = [np.abs(written[7].pixels - other).mean() for other in (drawn, plain)]
    assert nearness[0] < 4 and nearness[0] < nearness[1] / 2


def test_videos_are_cut_into_tiles(detector, tmp_path):
    pytest.importorskip('cv2', reason='the extra [video] is not installed')
    clip = test_videos.write_video(tmp_path / 'clip.mp4', 2)
    flags = ['--tile=40', '--overlap=8', '--score_threshold=0']
    assert predict(detector, clip, tmp_path / 'out', *flags) == 0
    lines = [json.loads(line) for line in (tmp_path / 'out' / 'clip.jsonl').open()]
    Image.fromarray(test_videos.read(clip)[1].pixels).save(tmp_path / '1.png')
    assert predict(detector, tmp_path / '1.png', tmp_path / 'image', *flags) == 0
    (expected,) = read_json(tmp_path / 'image').values()
    boxes = [[one['xmin'], one['ymax']] for one in expected['detections']]
    assert [[one['xmin'], one['ymax']] for one in lines[1]['detections']] == boxes


BAD_VIDEOS = {
    'a format': (['--output_format=csv'], 'videos have a line of JSON for each frame; expected'),
    'yolo': (['--output_format=yolo'], '--output_format=yolo: videos have a line of JSON'),
    'their own folder': (['--output_dir={tmp}'], 'clip.mp4 would overwrite a video; expected'),
    'a remote folder': (['--output_dir=gs://a/b'], 'expected local paths with videos'),
    'images too': (['--images={tmp}/*.*'], 'is a video, and there are images too; expected one'),
    'a file that is none': (['--images={tmp}/bad/a.mov'], 'a.mov: the video cannot be read'),
    'an empty file': (['--images={tmp}/bad/b.mp4'], 'b.mp4: the file is empty; expected a video'),
    'no frames': (['--images={tmp}/bad/c.avi'], 'no frame of the video can be decoded'),
    'a list of both': (['--images={tmp}/list.txt'], 'is a video, and there are images too'),
    'too small tiles': (
        ['--tile=64', '--overlap=64'],
        '--overlap is 64; expected less than --tile',
    ),
    'tiles of a classifier': (
        ['--tile=40', '--overlap=8'],
        'for tiles cannot be put together; leave',
    ),
    'an impossible rank': (['--top_k=0'], 'top_k'),
    'a missing file': (['--images={tmp}/no.mp4'], "--images: no file matches '{tmp}/no.mp4'"),
}


@pytest.mark.parametrize('case', sorted(BAD_VIDEOS))
def test_bad_input_of_videos_gets_one_sentence(case, classifier, tmp_path, capsys):
    pytest.importorskip('cv2', reason='the extra [video] is not installed')
    flags, expected = BAD_VIDEOS[case]
    flags = [flag.replace('{tmp}', str(tmp_path)) for flag in flags]
    clip = test_videos.write_video(tmp_path / 'clip.mp4', 2)
    save_images(tmp_path, 1)
    (tmp_path / 'bad').mkdir()
    (tmp_path / 'bad' / 'a.mov').write_bytes(b'no video')
    (tmp_path / 'bad' / 'b.mp4').touch()
    test_videos.write_video(tmp_path / 'bad' / 'c.avi', 0)
    (tmp_path / 'list.txt').write_text('000.png\nclip.mp4\n')
    assert predict(classifier, clip, tmp_path / 'out', *flags) == 2
    said = capsys.readouterr().err
    assert expected.replace('{tmp}', str(tmp_path)) in said and 'Traceback' not in said


def test_opencv_that_is_not_installed_is_named(classifier, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'cv2', None)
    (tmp_path / 'clip.mp4').write_bytes(b'a video')
    assert predict(classifier, tmp_path / 'clip.mp4', tmp_path / 'out') == 2
    said = capsys.readouterr().err
    assert "pip install 'vision-model-fns[video]'" in said and 'Traceback' not in said


def test_opencv_is_imported_for_videos_only(classifier, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, 'cv2', None)
    folder = save_images(tmp_path / 'images', 1)
    assert predict(classifier, folder, tmp_path / 'out') == 0


def test_predict_needs_a_model(tmp_path, capsys):
    flags = [f'--images={tmp_path}', f'--output_dir={tmp_path / "out"}']
    assert front_door('--mode=predict', *flags) == 2
    assert 'needs --saved_model_dir (or --model_file, --model_dir or' in capsys.readouterr().err


def test_a_model_of_another_program_is_run_with_a_config(classifier, tmp_path):
    """Its own outputs at least; with a config of ours, what they mean."""
    other = tmp_path / 'other'
    shutil.copytree(classifier, other)
    shutil.move(other / 'assets.extra' / 'pipeline.config', tmp_path / 'pipeline.config')
    folder = save_images(tmp_path / 'images', 1)
    assert predict(other, folder, tmp_path / 'plain') == 0
    (plain,) = read_json(tmp_path / 'plain').values()
    assert sorted(plain) == ['classes', 'logits', 'probabilities']
    config = f'--pipeline_config_path={tmp_path / "pipeline.config"}'
    assert predict(other, folder, tmp_path / 'named', config) == 0
    (named,) = read_json(tmp_path / 'named').values()
    assert named['classes'][0]['id'] == plain['classes']
