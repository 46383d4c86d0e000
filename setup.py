"""The package, its dependencies, its console scripts."""

import pathlib
import sys

from setuptools import find_packages, setup

if not (3, 9) <= sys.version_info[:2] <= (3, 11):
    sys.exit(
        'This project needs Python 3.9 to 3.11, and this is Python {}.{}: TensorFlow 2.15, the '
        'last one with tf.estimator, has no builds for it.'.format(*sys.version_info[:2])
    )

EXTRAS = {
    # Warm-up requests in exports; its versions go with TensorFlow's.
    'serving': ['tensorflow-serving-api==2.15.*'],
    # Conversion and prediction on Flink, Dataflow, Spark or several machines.
    'beam': ['apache-beam>=2.55'],
    # Files for onnxruntime. onnx 1.19 and later cannot be imported beside TensorFlow 2.15; the
    # tf2onnx that goes with protobuf 4 needs Python 3.10: 3.9 runs such files, no more.
    'onnx': [
        'tf2onnx>=1.17; python_version >= "3.10"',
        'onnx>=1.15,<1.19',
        'onnxruntime>=1.15',
    ],
    # Videos in `--mode=predict`.
    'video': ['opencv-python-headless>=4.8'],
    # The documentation as a site, `make docs`.
    'docs': ['mkdocs-material>=9.5,<10'],
}
# Extra `test` beside the other extras: tests, lint, types, and the generator of the messages.
TOOLS = [
    'pytest>=7',
    'pytest-xdist>=3',
    'hypothesis>=6',
    'ruff==0.17.*',
    'mypy>=1.11; python_version >= "3.10"',
    'types-protobuf>=4.24,<5',
    'types-PyYAML',
    'types-tqdm',
    'pre-commit>=3',
    'grpcio-tools==1.62.3',
    'pycocotools>=2.0.6',
]

setup(
    name='vision-model-fns',
    version='0.2.0',
    description='A factory of tf.estimator model_fns for vision, driven by pipeline configs.',
    long_description=pathlib.Path(__file__).with_name('README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    license_files=['LICENSE'],
    classifiers=[
        'License :: OSI Approved :: Apache Software License',
        'Programming Language :: Python :: 3.9',
        'Programming Language :: Python :: 3.10',
        'Programming Language :: Python :: 3.11',
        'Topic :: Scientific/Engineering :: Image Recognition',
    ],
    python_requires='>=3.9,<3.12',
    packages=find_packages(include=['estimator_lib*', 'model_fns*', 'protos*']),
    py_modules=['run_train_eval'],
    # model_fns/configs is a link to the folder of the root, where people see it.
    package_data={
        'estimator_lib': ['py.typed'],
        'model_fns': ['py.typed', 'configs/*.config'],
        'protos': ['py.typed', '*.proto', '*.pyi'],
    },
    install_requires=[
        'tensorflow>=2.15,<2.16',
        'tensorflow-estimator==2.15.*',
        'protobuf>=4.21.6,<5',
        'absl-py>=1.4',
        'numpy>=1.23,<2',
        'tqdm>=4.62',
        'Pillow>=10.1',  # pictures, PNG, headers, EXIF; 10.1: its own font in any size
        'faster-coco-eval>=1.6',  # reads the masks of COCO files
        'PyYAML>=5.1',  # reads the data files of YOLO
    ],
    extras_require={
        **EXTRAS,
        'test': [*TOOLS, *(need for extra in EXTRAS.values() for need in extra)],
    },
    entry_points={
        'console_scripts': [
            'run-train-eval=run_train_eval:main',
            'convert-checkpoint=model_fns.convert_checkpoint:main',
            'convert-records=model_fns.datasets.convert:main',
            'launch-local=estimator_lib.launch_local:main',
        ]
    },
)
