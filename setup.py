"""The package, its dependencies, its console scripts."""

import pathlib
import sys

from setuptools import find_packages, setup

if not (3, 9) <= sys.version_info[:2] <= (3, 13):
    sys.exit(
        'This project needs Python 3.9 to 3.13, and this is Python {}.{}: TensorFlow 2.15 to 2.21 '
        'have no builds for it.'.format(*sys.version_info[:2])
    )

# The two lanes: below Python 3.12 the last TensorFlow with `tf.estimator`, so that an upgrade of
# this project does not replace anybody's TensorFlow; from 3.12 on the newest, because TensorFlow
# 2.15 has no builds there.
REFERENCE = 'python_version < "3.12"'
NEWEST = 'python_version >= "3.12"'

EXTRAS = {
    # Warm-up requests in exports; its versions go with TensorFlow's.
    'serving': [
        f'tensorflow-serving-api==2.15.*; {REFERENCE}',
        f'tensorflow-serving-api>=2.16,<2.22; {NEWEST}',
    ],
    # Conversion and prediction on Flink, Dataflow, Spark or several machines.
    'beam': ['apache-beam>=2.55'],
    # Files for onnxruntime. onnx 1.19 and later cannot be imported beside TensorFlow 2.15; the
    # tf2onnx that goes with protobuf 4 needs Python 3.10: 3.9 runs such files, no more.
    'onnx': [
        'tf2onnx>=1.17; python_version >= "3.10"',
        f'onnx>=1.15,<1.19; {REFERENCE}',
        f'onnx>=1.19; {NEWEST}',
        'onnxruntime>=1.15',
    ],
    # The libraries of CUDA. TensorFlow 2.15.0 names one that is not published.
    'gpu': [
        f'tensorflow[and-cuda]>=2.15.1,<2.16; {REFERENCE}',
        f'tensorflow[and-cuda]>=2.16,<2.22; {NEWEST}',
    ],
    # Weights of timm.
    'hub': ['safetensors>=0.4', 'huggingface_hub>=0.23'],
    # Videos in `--mode=predict`.
    'video': ['opencv-python-headless>=4.8'],
    # The documentation as a site, `make docs`.
    'docs': ['mkdocs-material>=9.5,<10'],
}
# Extra `test` beside the other extras: tests, lint, types, and the generator of the messages.
# grpcio-tools 1.62.3 needs protobuf 4. apache-beam 2.77 needs protobuf < 7 and numpy < 2.5: the
# newest lane is tested with what users get without the extra [beam].
TOOLS = [
    'pytest>=7',
    'pytest-xdist>=3',
    'hypothesis>=6',
    'ruff==0.17.*',
    'mypy>=1.11; python_version >= "3.10"',
    'types-protobuf>=4.24,<5',  # of the generator of the messages
    'types-PyYAML',
    'types-tqdm',
    'pre-commit>=3',
    f'grpcio-tools==1.62.3; {REFERENCE}',
    'pycocotools>=2.0.6',
    'kubeflow-trainer-api>=2',  # the model of a JobSet
    'kubeflow-training>=1.9,<2',  # the model of a TFJob, and the client of Kubernetes
    f'apache-beam>=2.55; {REFERENCE}',
]
TESTED = ('serving', 'onnx', 'hub', 'docs')

setup(
    name='vision-model-fns',
    version='0.2.0',
    description='A factory of Estimator model_fns for vision, driven by pipeline configs.',
    long_description=pathlib.Path(__file__).with_name('README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    classifiers=[
        'License :: OSI Approved :: Apache Software License',
        'Programming Language :: Python :: 3.9',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Programming Language :: Python :: 3.12',
        'Programming Language :: Python :: 3.13',
        'Topic :: Scientific/Engineering :: Image Recognition',
    ],
    python_requires='>=3.9,<3.14',
    packages=find_packages(include=['vision_extras*', 'model_fns*', 'estimator_lib*', 'protos*']),
    py_modules=['run_train_eval'],
    # model_fns/configs is a link to the folder of the root, where people see it.
    package_data={
        'estimator_lib': ['py.typed', 'analysis/report.*'],
        'model_fns': [
            'py.typed',
            'cli/*.ini',
            'configs/*.config',
            'datasets/*.config',
            'datasets/convert/*.ini',
        ],
        'vision_extras': ['py.typed', 'recover/published/*.config'],
        'protos': ['py.typed', '*.proto', '*.pyi'],
    },
    install_requires=[
        f'tensorflow>=2.15,<2.16; {REFERENCE}',
        f'tensorflow>=2.16,<2.22; {NEWEST}',
        'tensorflow-estimator==2.15.*',  # declares no dependencies, works with all of them
        'tensorboard>=2.15,<2.22',  # TensorFlow 2.21 does not bring it any more
        'protobuf>=4.21.6,<8',  # TensorFlow's metadata narrow this range and the next
        'numpy>=1.23,<3',
        'flatbuffers>=2.0',  # TensorFlow's own; writes the metadata of TFLite files
        'absl-py>=1.4',
        'tqdm>=4.62',
        'Pillow>=10.1',  # pictures, PNG, headers, EXIF; 10.1: its own font in any size
        'faster-coco-eval>=1.6',  # reads the masks of COCO files
        'matplotlib>=3.7',  # figures of runs and of analyses
        'PyYAML>=5.1',  # reads the data files of YOLO
    ],
    extras_require={
        **EXTRAS,
        'test': [*TOOLS, *(need for extra in TESTED for need in EXTRAS[extra])],
    },
    entry_points={
        'console_scripts': [
            'run-train-eval=run_train_eval:main',
            'convert-checkpoint=model_fns.convert_checkpoint:main',
            'recover-config=vision_extras.recover.recover_config:main',
            'convert-records=model_fns.datasets.convert:main',
            'launch-local=estimator_lib.launch_local:main',
            'launch-jobset=vision_extras.jobset.command:main',
        ]
    },
)
