import json

import numpy as np
import pytest

from estimator_lib import errors
from model_fns.backbones import registry
from model_fns.backbones.hub_weights import families, files
from tests.model_fns.backbones.hub_weights import recorded_weights
from tests.model_fns.backbones.hub_weights.recorded_weights import FakeFile

# The names of an EfficientNet that its files are known by, and a batch norm.
SMALL = {
    'conv_stem.weight': [4, 3, 3, 3],
    'bn1.weight': [4],
    'bn1.bias': [4],
    'bn1.running_mean': [4],
    'bn1.running_var': [4],
    'bn1.num_batches_tracked': [],
    'blocks.0.0.conv_pw.weight': [2, 4, 1, 1],
    'blocks.1.0.se.conv_reduce.weight': [1, 8, 1, 1],
}


def small_reader(path='b0.safetensors', **more):
    return files.FamilyReader(str(path), FakeFile(recorded_weights.zeros({**SMALL, **more})))


@pytest.mark.parametrize(
    ('model', 'without'),
    [
        ('tf_efficientnet_b0', 0),
        ('tf_mobilenetv3_small_100', 0),
        ('xception41', 0),
        ('inception_v3', 10),
        pytest.param('inception_resnet_v2', 10, marks=pytest.mark.published),
        pytest.param('nasnetalarge', 0, marks=pytest.mark.published),
    ],
)
def test_logits_are_the_recorded_ones(model, without):
    case = recorded_weights.recorded_case(model)
    reader = files.FamilyReader('model.safetensors', FakeFile(recorded_weights.state(case)))
    network = registry.get_network(families.networks()[model])
    images = case['input_image_uint8'].astype(np.float32)
    # In the network's own normalization, which has to be that of the weights.
    normalized = np.asarray(network.normalization(images))
    expected = (images / 255.0 - case['mean']) / case['std']
    np.testing.assert_allclose(normalized, expected, atol=1e-5)
    key = 'logits_padding_not_counted' if 'logits_padding_not_counted' in case else 'logits'
    logits, missing = recorded_weights.logits(reader, network.name, normalized)
    assert np.abs(logits - case[key]).max() <= 1e-4 * np.abs(case[key]).max()
    # Auxiliary heads have no source.
    assert len(missing) == without
    assert all('/AuxLogits/' in name for name in missing)


def test_axes_by_hand():
    tensors = recorded_weights.zeros(SMALL)
    tensors['conv_stem.weight'] = np.arange(4 * 3 * 3 * 3, dtype=np.float32).reshape([4, 3, 3, 3])
    reader = files.FamilyReader('b0.safetensors', FakeFile(tensors))
    kernel = reader.get_tensor('EfficientNet/stem/weights')
    # [output, input, row, column] -> [row, column, input, output]
    assert kernel[2, 1, 0, 3] == tensors['conv_stem.weight'][3, 0, 2, 1] == 3 * 27 + 7
    assert reader.get_variable_to_shape_map()['EfficientNet/stem/weights'] == [3, 3, 3, 4]
    assert reader.has_tensor('EfficientNet/stem/BatchNorm/moving_variance')
    assert len(reader.get_variable_to_dtype_map()) == len(SMALL) - 1


def test_the_factor_of_a_batch_norm_goes_into_the_convolution():
    tensors = {
        'Conv2d_1a_3x3.conv.weight': np.ones([2, 3, 3, 3], np.float16),
        'Conv2d_1a_3x3.bn.weight': np.float32([0.5, 3.0]),
        'Conv2d_1a_3x3.bn.bias': np.float32([0.0, 1.0]),
        'Conv2d_1a_3x3.bn.running_mean': np.float32([4.0, 5.0]),
        'Conv2d_1a_3x3.bn.running_var': np.float32([1.0, 2.0]),
        'Mixed_5b.branch1x1.conv.weight': np.ones([1, 2, 1, 1], np.float32),
        'Mixed_5b.branch1x1.bn.weight': np.ones([1], np.float32),
        'Mixed_5b.branch1x1.bn.running_mean': np.zeros([1], np.float32),
    }
    reader = files.FamilyReader('v3.safetensors', FakeFile(tensors))
    scope = 'InceptionV3/Conv2d_1a_3x3'
    assert reader.get_tensor(f'{scope}/weights')[1, 1, 1].tolist() == [0.5, 3.0]
    assert reader.get_tensor(f'{scope}/weights').dtype == np.float32
    # 0.5 * (y - 4) = 0.5 * y - 2
    assert reader.get_tensor(f'{scope}/BatchNorm/moving_mean').tolist() == [2.0, 15.0]
    assert reader.get_tensor(f'{scope}/BatchNorm/moving_variance').tolist() == [1.0, 2.0]
    assert reader.get_tensor(f'{scope}/BatchNorm/beta').tolist() == [0.0, 1.0]
    assert not reader.has_tensor(f'{scope}/BatchNorm/gamma')


def test_a_file_of_an_unknown_network():
    with pytest.raises(errors.CheckpointError) as caught:
        files.FamilyReader('r.safetensors', FakeFile(recorded_weights.zeros({'fc.weight': [5, 2]})))
    assert str(caught.value) == (
        'r.safetensors is of an unknown network (it holds fc.weight); expected the weights of '
        'one of: ' + ', '.join(family.name for family in families.FAMILIES) + '.'
    )


def test_a_file_that_resembles_one():
    with pytest.raises(errors.CheckpointError, match=r'than EfficientNet, .* blocks\.1\.0\.odd\.w'):
        small_reader(**{'blocks.1.0.odd.weight': [1, 1]})


def test_the_license_of_the_card(tmp_path):
    path = tmp_path / 'b0.safetensors'
    assert small_reader(path).description() == (
        'EfficientNet, weights of timm, license not known: no README.md beside the file has it'
    )
    (tmp_path / 'README.md').write_text('---\ntags:\n- x\nlicense: apache-2.0\n---\nlicense: no\n')
    assert small_reader(path).description() == ('EfficientNet, weights of timm, license apache-2.0')
    (tmp_path / 'README.md').write_text('# Model\nlicense: none\n')
    assert files.read_license(str(tmp_path)) == ''


@pytest.mark.parametrize(
    ('architecture', 'tag'),
    [('efficientnet_b0', 'ra_in1k'), ('tf_efficientnet_b0', 'ap_in1k')],
)
def test_weights_that_compute_something_else(tmp_path, architecture, tag):
    described = {'architecture': architecture, 'pretrained_cfg': {'tag': tag}}
    (tmp_path / 'config.json').write_text(json.dumps(described))
    with pytest.raises(errors.CheckpointError, match='other paddings or another normalization'):
        small_reader(tmp_path / 'b0.safetensors')


def test_a_port_with_its_description(tmp_path):
    described = {'architecture': 'tf_efficientnet_b0', 'pretrained_cfg': {'tag': 'in1k'}}
    (tmp_path / 'config.json').write_text(json.dumps(described))
    small_reader(tmp_path / 'b0.safetensors')


@pytest.mark.parametrize(
    'text',
    [
        *('malformed', 'null', '[1]', '[' * 100_000, '{"architecture": 1e400}'),
        '{"architecture": "tf_efficientnet_b0", "pretrained_cfg": null}',
        '{"architecture": "tf_efficientnet_b0", "pretrained_cfg": [1]}',
        '{"architecture": "tf_efficientnet_b0", "pretrained_cfg": {"tag": [1]}}',
    ],
)
def test_a_damaged_description_is_left_out(tmp_path, text):
    (tmp_path / 'config.json').write_text(text)
    small_reader(tmp_path / 'b0.safetensors')


def test_a_corrupt_file(tmp_path):
    pytest.importorskip('safetensors')
    path = tmp_path / 'b0.safetensors'
    path.write_bytes(b'no header')
    with pytest.raises(errors.CheckpointError, match='cannot be read as a safetensors file: '):
        files.open_weights(str(path))


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'safetensors', None)
    with pytest.raises(errors.UserError) as caught:
        files.open_weights('b0.safetensors')
    assert str(caught.value) == (
        'b0.safetensors cannot be read without the package safetensors: '
        "pip install 'vision-model-fns[hub]'"
    )


def test_a_file_on_disk(tmp_path):
    numpy_files = pytest.importorskip('safetensors.numpy')
    tensors = {name: np.zeros(shape, np.float32) for name, shape in SMALL.items()}
    tensors['bn1.bias'] = np.float32([1.0, 2.0, 3.0, 4.0])
    path = tmp_path / 'b0.safetensors'
    numpy_files.save_file(tensors, path)
    reader = files.open_weights(str(path))
    beta = reader.get_tensor('EfficientNet/stem/BatchNorm/beta')
    assert beta.tolist() == [1.0, 2.0, 3.0, 4.0]
