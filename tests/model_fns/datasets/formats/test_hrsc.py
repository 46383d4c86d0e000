"""`--from=hrsc`, through the command."""

import numpy as np
import pytest

from model_fns.datasets.rotated import boxes as rotated
from model_fns.structures import rotated_rectangles
from tests.model_fns.datasets.converted import records_of, run, values, write_image

IMAGE = """<HRSC_Image><Img_SizeWidth>100</Img_SizeWidth><Img_SizeHeight>50</Img_SizeHeight>
<HRSC_Objects>{}</HRSC_Objects></HRSC_Image>"""
SHIP = """<HRSC_Object><Class_ID>100000001</Class_ID><difficult>1</difficult><mbox_cx>40</mbox_cx>
<mbox_cy>20</mbox_cy><mbox_w>30</mbox_w><mbox_h>8</mbox_h><mbox_ang>-0.5</mbox_ang></HRSC_Object>"""


def convert(folder, content):
    write_image(folder / 'AllImages' / '1.png', 50, 100)
    (folder / 'Annotations').mkdir(exist_ok=True)
    (folder / 'Annotations' / '1.xml').write_text(content)
    return run(
        '--from=hrsc',
        f'--images={folder / "AllImages"}',
        f'--annotations={folder / "Annotations"}',
        f'--label_map={folder / "map.pbtxt"}',
        f'--output_prefix={folder / "out" / "train"}',
        '--num_shards=1',
    )


def test_a_record(tmp_path):
    assert convert(tmp_path, IMAGE.format(SHIP)) == 0
    (feature,) = records_of(tmp_path / 'out' / 'train').values()
    numbers = np.array([values(feature, key)[0] for key in rotated.KEYS])
    box = rotated_rectangles.from_record(numbers, 50, 100)
    np.testing.assert_allclose(box, [20, 40, 8, 30, -0.5], atol=1e-4)
    assert values(feature, 'image/object/class/text') == [b'ship']
    assert values(feature, 'image/object/difficult') == [1]


@pytest.mark.parametrize(
    'old, new, expected',
    [
        ('-0.5</mbox_ang>', '-30</mbox_ang>', 'beyond 2 pi: degrees'),
        ('<mbox_h>8</mbox_h>', '<mbox_h>0</mbox_h>', 'has a side of 0'),
        ('<mbox_cx>40</mbox_cx>', '', "<mbox_cx> of <HRSC_Object> is ''"),
        ('>50<', '>60<', 'of 60 x 100 pixels; the image has 50 x 100'),
    ],
)
def test_what_is_wrong_is_named(tmp_path, capsys, old, new, expected):
    assert convert(tmp_path, IMAGE.format(SHIP).replace(old, new)) == 2
    assert expected in capsys.readouterr().err
