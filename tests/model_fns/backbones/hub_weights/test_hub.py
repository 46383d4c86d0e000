import os
import sys
import types

import pytest

from estimator_lib import errors
from model_fns.backbones.hub_weights import hub

FIELD = 'train_config.fine_tune_checkpoint'
NAME = 'hub:timm/tf_efficientnet_b0.in1k'


class EntryNotFoundError(Exception):
    """The hub has no such file."""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return tmp_path / 'vision_model_fns'


@pytest.fixture
def client(monkeypatch):
    """A client of the hub, which writes what is downloaded."""

    def download(repository, name, local_dir, etag_timeout):
        assert 0.0 < etag_timeout < 60.0
        if name in fake.missing:
            raise EntryNotFoundError(name)
        if fake.problem:
            raise fake.problem
        fake.downloaded.append(name)
        os.makedirs(local_dir, exist_ok=True)
        with open(os.path.join(local_dir, name), 'w') as file:
            file.write(repository)

    fake = types.ModuleType('huggingface_hub')
    fake.hf_hub_download = download
    fake.errors = types.SimpleNamespace(EntryNotFoundError=EntryNotFoundError)
    fake.downloaded, fake.missing, fake.problem = [], (), None
    monkeypatch.setitem(sys.modules, 'huggingface_hub', fake)
    return fake


def test_weights_are_downloaded_once(cache, client):
    path = hub.find(NAME, FIELD)
    assert path == str(cache / 'timm' / 'tf_efficientnet_b0.in1k' / 'model.safetensors')
    assert client.downloaded == ['model.safetensors', 'README.md', 'config.json']
    assert hub.find(NAME, FIELD) == path
    assert len(client.downloaded) == 3
    with open(path) as file:
        assert file.read() == 'timm/tf_efficientnet_b0.in1k'


def test_a_repository_without_a_card(cache, client):
    client.missing = ('README.md', 'config.json')
    hub.find('hub:me/my-model', FIELD)
    assert client.downloaded == ['model.safetensors']


def test_a_file_that_is_there_needs_no_network(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    path = cache / 'timm' / 'tf_efficientnet_b0.in1k' / 'model.safetensors'
    path.parent.mkdir(parents=True)
    path.write_text('')
    assert hub.find(NAME, FIELD) == str(path)


def test_no_network(cache, client):
    client.problem = OSError('no route to host.\nand more')
    with pytest.raises(errors.CheckpointError) as caught:
        hub.find(NAME, FIELD)
    assert str(caught.value) == (
        f'{FIELD}: {NAME} cannot be downloaded (no route to host); put model.safetensors of '
        'https://huggingface.co/timm/tf_efficientnet_b0.in1k at '
        f'{cache}/timm/tf_efficientnet_b0.in1k/model.safetensors.'
    )


def test_without_the_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    with pytest.raises(errors.UserError, match=r'fns\[hub\]., or put model.safetensors of https:'):
        hub.find(NAME, FIELD)


@pytest.mark.parametrize('name', ['hub:', 'hub:timm', 'hub:timm/../x', 'hub:a/b/c', 'hub:timm/'])
def test_malformed_names(name):
    with pytest.raises(errors.ConfigError, match='is malformed; expected hub:OWNER/NAME'):
        hub.find(name, FIELD)


@pytest.mark.parametrize(
    ('name', 'nearest'),
    [
        ('hub:timm/xception65', 'xception65.tf_in1k'),
        ('hub:timm/xception65.ra3_in1k', 'xception65.tf_in1k'),
        ('hub:timm/efficientnet_b0.in1k', 'tf_efficientnet_b0.in1k'),
        ('hub:timm/inception_v3.tv_in1k', 'inception_v3.tf_in1k'),
    ],
)
def test_models_that_do_not_fit_are_refused_before_the_download(name, nearest, client):
    with pytest.raises(errors.ConfigError, match=f'did you mean {nearest!r}'):
        hub.find(name, FIELD)
    assert not client.downloaded
