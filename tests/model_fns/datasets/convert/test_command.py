"""The command line of the converter; what it does is tested with each source."""

import pytest

from tests.model_fns.datasets.converted import run, write_image


@pytest.fixture
def photos(tmp_path):
    write_image(tmp_path / 'photos' / 'cat' / 'a.png')
    return tmp_path / 'photos'


@pytest.mark.parametrize(
    'flags, expected',
    [
        (['--from=vok'], "'vok'"),
        (['--num_shards=0'], '--num_shards is 0; expected at least 1'),
        (['--num_workers=0'], '--num_workers is 0; expected at least 1'),
        (['--num_workers=two'], "invalid int value: 'two'"),
        (['--list=nowhere'], 'there is no file nowhere'),
        (['--images=nowhere'], 'no folder nowhere'),
        (['--from=voc'], '--from=voc needs --annotations=DIR'),
        (['--from=coco'], '--from=coco needs --annotations=FILE'),
        (['--from=yolo'], '--from=yolo needs --annotations=DIR'),
        (['--from=masks'], '--from=masks needs --annotations=DIR'),
        (['--from=instances'], '--from=instances needs --annotations=DIR'),
        (['--split=train'], "'train': expected names and shares"),
        (['--split=train:0.8,val:0.3'], 'adds up to 1.1; expected names and shares'),
        (['--split=a:0.5,a:0.5'], 'the parts need names that differ'),
        (['--split=a:1.5,b:-0.5'], 'expected names and shares that add up to 1'),
        (['--mask_values=0=cell'], 'not of the form VALUE:NAME,VALUE:NAME, like 0:background'),
        (['--mask_values=1:a,1:b'], 'names a value twice'),
        (['--ignore_label=void'], "'void' is neither a number from 0 to 65535 nor none"),
        (['--ignore_label=65536'], 'neither a number from 0 to 65535'),
        (['--mask_values=65536:a'], 'or one above 65535'),
        (['--output_prefix=out/'], 'expected a folder and the beginning of a name, like out/train'),
        (['--exif=maybe'], "'maybe'"),
        (['--annotations=a.json'], '--annotations is not read by --from=folders; it is of --from='),
        (['--names=a.txt'], '--names is not read by --from=folders; it is of --from=yolo.'),
        (['--mask_values=0:a'], '--mask_values is not read by --from=folders; it is of --from=mas'),
        (['--ignore_label=0'], 'by --from=folders; it is of --from=masks, --from=instances.'),
        (['--class_name=ship'], '--class_name is not read by --from=folders'),
        (
            ['--no_masks'],
            '--no_masks is not read by --from=folders; it is of --from=coco, --from=yolo',
        ),
        (['--overlap=20'], '--overlap=20: there are no tiles without --tile.'),
        (['--min_area_inside=0.5'], '--min_area_inside=0.5: there are no tiles without --tile.'),
        (['--output_prefix=${OUT}/train'], "--output_prefix: '${OUT}/train' is a placeholder"),
    ],
)
def test_bad_usage_gets_one_sentence(photos, tmp_path, capsys, flags, expected):
    status = run(
        '--from=folders',
        f'--images={photos}',
        f'--label_map={tmp_path / "map.pbtxt"}',
        f'--output_prefix={tmp_path / "train"}',
        *flags,
    )
    said = capsys.readouterr().err
    assert status == 2
    assert said.startswith('error: ') and expected in said and 'Traceback' not in said
    assert not list(tmp_path.glob('*.tfrecord'))


def test_what_was_written_is_said(photos, tmp_path, capsys):
    prefix = tmp_path / 'train'
    flags = ('--from=folders', f'--images={photos}', f'--label_map={tmp_path / "map.pbtxt"}')
    assert run(*flags, f'--output_prefix={prefix}') == 0
    assert capsys.readouterr().out == f'1 record in {prefix}-?????-of-?????.tfrecord\n'


def test_help_names_every_flag(capsys):
    assert run('--help') == 0
    said = capsys.readouterr().out
    for flag in ('from', 'split', 'seed', 'num_workers', 'mask_values', 'ignore_label', 'exif'):
        assert f'--{flag}' in said


@pytest.mark.parametrize('name', ['voc', 'coco', 'yolo', 'masks', 'panoptic', 'csv', 'labelme'])
def test_a_relative_path_that_is_not_there_names_the_working_folder(
    photos, tmp_path, capsys, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    status = run(
        f'--from={name}',
        f'--images={photos}',
        '--annotations=nowhere',
        '--label_map=map.pbtxt',
        '--output_prefix=out/train',
    )
    said = capsys.readouterr().err
    assert status == 2
    assert f'nowhere (in the working folder {tmp_path})' in said
