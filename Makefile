# The two commands of the README, and what developers use beside them.
#
# make demo    creates .venv with the newest Python here, installs, trains the embedded demo
# make test    creates .venv likewise, and runs the tests of all parts on two processes;
#              TESTS=tests/model_fns/detection runs a part, PROCESSES=0 in this process
# make test-system  runs the tests of whole programs: runs of each task, clusters, kills, exports
#
# Each command takes PYTHON=python3.11 for another Python, and VENV=.venv-2.15 for another folder
# than .venv: below Python 3.12 that has TensorFlow 2.15, from 3.12 on the newest.
#
# make test-other  runs the tests of what meets TensorFlow (loops, checkpoints, exports, a run of
#              each task, recorded networks) on the other TensorFlow, if a Python for it is here:
#              where .venv has 2.15 on the newest, in .venv-newest, else on 2.15, in .venv-2.15
# make lint     looks for faults of style; make types checks types, with the exceptions that
#              pyproject.toml lists; make format formats
# make test-numerics  runs the tests of what networks compute with kernels that make test does not
#              take on this processor: none of oneDNN's, AVX2's, AVX-512's, and those for a single
#              thread; then compares the bounds on rounding with what was measured
# make test-published  runs the tests of networks of whose layers make test builds each kind once
# make published    trains, evaluates and exports every published detection config, after
#              make test-published
# make benchmark    start, steps, input and serving on this machine: the goals of docs/performance.md
# make devices  the table of docs/devices.md: each family in each format and runtime that is installed;
#              FAMILIES=single-shot,CenterNet has a part of it
# make promises    trains the demo, checks its limits, draws docs/demo_detections.jpg
# make image   builds an image with docker; DEVICE=gpu has the libraries of CUDA
# make docs    builds the documentation as a site in site/; a dead link is an error
# make fuzz    gives malformed inputs to what reads them, see tests/campaigns/fuzz; FUZZ=--seed=7
# make test-estimator-api  every call of tf.estimator with every task; the suite has a part of it
# make endurance  long runs with each kind of reader, whose memory must not grow (hours);
#              ENDURANCE='--steps=2000 --readers=coco' runs a part, see tests/campaigns/endurance.py
# make chaos   runs clusters on this machine and kills their tasks, see tests/campaigns/chaos.py

# Processes of tests read compiled sources, whatever the environment says of keeping them.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
REFERENCE_VENV := .venv-2.15
NEWEST_VENV := .venv-newest
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
DEMO_DIR ?= /tmp/vision-model-fns-demo
TESTS ?= tests --ignore=tests/system
PROCESSES ?= 2
IMAGE ?= vision-model-fns
DEVICE ?= cpu
REFERENCE_PYTHONS := 3.11 3.10 3.9
NEWEST_PYTHONS := 3.13 3.12
# Where TensorFlow is met: checkpoints, both loops, exports and Estimators of the engine, one whole
# run of each task, a file of each format, and networks that were recorded. What is built of them by
# the same calls is left out, and what is arithmetic or rules of ours: `make test VENV=.venv-newest`
# runs it too.
LANE_TESTS := tests/test_initial_values.py tests/protos \
  $(addprefix tests/test_run_train_eval.py::test_,it_reports_from_step_1_and_says_where_things_are \
    it_learns what_comes_out evaluate_gives_the_same_numbers_again \
    exports_predict_what_the_estimator_does a_frozen_graph_predicts_what_the_estimator_does \
    a_tflite_file_answers_as_the_estimator_does \
    a_checkpoint_with_other_classes_restores_all_but_the_logits) \
  $(addprefix tests/estimator_lib/,$(addprefix test_,environment.py model_fn.py task.py)) \
  $(addprefix tests/estimator_lib/test_training.py::test_, \
    it_descends_as_computed_by_hand_and_reports_all_sets keep_max_and_cadence_are_obeyed \
    a_second_run_resumes_with_the_next_examples \
    a_moved_folder_resumes_weights_and_the_position_of_the_reader \
    training_ends_when_evaluations_get_no_better the_graph_hook_reaches_every_graph_of_a_run \
    a_finished_run_that_is_started_again_adds_no_export \
    an_evaluation_that_was_killed_is_made_first_after_a_restart \
    checkpoints_of_another_folder_are_watched_until_the_last \
    training_computes_in_bfloat16_and_evaluation_does_not \
    a_step_that_is_not_finite_is_left_out_and_counted \
    replicas_of_a_strategy_leave_out_a_step_together \
    the_best_checkpoint_stays_and_can_be_started_from what_a_run_says_is_in_model_dir) \
  tests/estimator_lib/test_training_extensions.py::test_hooks_of_tensorflow_work \
  tests/estimator_lib/data/test_image_decoding.py tests/estimator_lib/data/test_inputs.py \
  tests/estimator_lib/evaluation/test_evaluation_session.py \
  $(filter-out %_policies.py,$(wildcard tests/estimator_lib/export/test_*.py)) \
  $(addprefix tests/estimator_lib/,checkpoints distribution export/devices function_loop graphs) \
  $(addprefix tests/estimator_lib/,hooks optimization slim_compat tf_estimator) \
  tests/estimator_lib/export/test_export_policies.py::test_the_exporters_of_tensorflow_write_saved_models \
  tests/system/test_estimator_api.py tests/system/test_loops.py \
  tests/system/test_files_for_devices.py::test_a_file_has_the_metrics_of_its_checkpoint \
  tests/system/test_files_for_devices.py::test_a_file_predicts_what_its_checkpoint_does \
  tests/system/test_onnx_of_tasks.py::test_a_detector_with_its_suppression \
  tests/system/test_program_of_docs.py tests/system/test_run_train_eval_center_net.py \
  $(addprefix tests/system/test_run_train_eval_detection.py::test_,it_learns \
    exports_detect_what_the_estimator_does a_tflite_file_finds_what_the_estimator_does) \
  $(addprefix tests/system/test_run_train_eval_segmentation.py::test_,it_learns_classes_and_instances \
    an_export_predicts_what_the_estimator_does) \
  $(addprefix tests/system/test_run_train_eval_two_stage.py::test_, \
    evaluations_have_the_losses_of_the_stages[masks] \
    an_export_detects_what_the_estimator_does[masks]) \
  tests/system/test_two_tensorflows.py \
  $(addsuffix /test_deployable.py::test_a_file_answers_as_the_export_does, \
    $(addprefix tests/model_fns/,classification detection segmentation)) \
  $(addprefix tests/model_fns/backbones/test_published_networks.py::test_computes_what_the_published_network_does, \
    [lenet] [mobilenet_v1] [mobilenet_v2_035] [resnet_v1_50]) \
  tests/model_fns/segmentation/test_recorded.py::test_training_is_the_recorded_one \
  $(addprefix tests/model_fns/detection/architectures/test_recorded_objects.py::test_predictions_are_as_recorded, \
    [tf2/ssd_mobilenet_v2_fpnlite_320]) \
  tests/vision_extras/beam/test_conversion.py
# What no kernel changes is left out: names and shapes, boxes, refusals, and what surrounds a run.
NUMERIC_TESTS := tests/model_fns/backbones tests/model_fns/layers tests/model_fns/tf2_api \
  tests/model_fns/detection/architectures tests/model_fns/detection/networks \
  tests/model_fns/segmentation/networks tests/model_fns/segmentation/test_recorded.py \
  tests/system/test_loops.py::test_both_loops_have_the_same_losses_and_checkpoints \
  tests/system/test_loops.py::test_two_replicas_learn_what_one_device_does \
  tests/system/test_two_stage_training.py::test_all_reduce \
  tests/system/test_run_train_eval_rotated.py::test_it_learns \
  tests/system/test_run_train_eval_rotated.py::test_two_stages_learn_and_export_what_the_estimator_detects \
  tests/system/test_run_train_eval_two_stage.py::test_evaluations_have_the_losses_of_the_stages
NOT_NUMERIC := variables or names or object_paths or parameters or refuse
# oneDNN takes other algorithms for a single thread.
KERNELS := TF_ENABLE_ONEDNN_OPTS=0 ONEDNN_MAX_CPU_ISA=AVX2 ONEDNN_MAX_CPU_ISA=AVX512_CORE \
  TF_NUM_INTRAOP_THREADS=1

.PHONY: demo test test-system test-other test-estimator-api test-numerics test-published lint types format protos benchmark published devices promises chaos endurance fuzz docs image clean environment

demo: $(INSTALLED)
	$(BIN)/python run_train_eval.py --model_dir=$(DEMO_DIR)

test: $(INSTALLED_TEST)
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal $(TESTS)

test-system:
	$(MAKE) test TESTS=tests/system

test-other: | environment
	@if PYTHON=$(BIN)/python sh tools/find_python.sh $(REFERENCE_PYTHONS) >/dev/null 2>&1; then \
	  venv=$(NEWEST_VENV); pythons='$(NEWEST_PYTHONS)'; \
	else \
	  venv=$(REFERENCE_VENV); pythons='$(REFERENCE_PYTHONS)'; \
	fi; \
	if python=$$(PYTHON= sh tools/find_python.sh $$pythons 2>/dev/null); then \
	  $(MAKE) test VENV=$$venv PYTHON="$$python" TESTS="$$(echo $(LANE_TESTS))"; \
	else \
	  echo "skipped: the other TensorFlow needs one of Python $$pythons with venv; none is here."; \
	fi

test-estimator-api: $(INSTALLED_TEST)
	ALL_TASKS=1 $(BIN)/python -m pytest -n $(PROCESSES) tests/system/test_estimator_api.py \
	  tests/system/test_program_of_docs.py

test-numerics: $(INSTALLED_TEST)
	@log=$$(mktemp); for kernels in $(KERNELS); do echo "$$kernels"; \
	  env $$kernels ROUNDING_LOG=$$log $(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal \
	      $(NUMERIC_TESTS) -m '' -k 'not ($(NOT_NUMERIC))' || { rm $$log; exit 1; }; \
	done; $(BIN)/python -m tests.rounding $$log; status=$$?; rm $$log; exit $$status

lint: $(INSTALLED_TEST)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(INSTALLED_TEST)
	$(BIN)/mypy

format: $(INSTALLED_TEST)
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

protos: $(INSTALLED_TEST)
	$(BIN)/python -m protos.generate

benchmark: $(INSTALLED)
	$(BIN)/python -m benchmarks.training.run
	$(BIN)/python -m benchmarks.steps
	$(BIN)/python -m benchmarks.input.stages
	$(BIN)/python -m benchmarks.training.run --phases --output=benchmark_phases.json
	$(BIN)/python -m benchmarks.serving.exports

test-published: $(INSTALLED_TEST)
	$(BIN)/python -m pytest -n $(PROCESSES) --dist worksteal -m published tests/model_fns

published: test-published
	$(BIN)/python -m tests.campaigns.published $(CONFIGS)

devices: $(INSTALLED_TEST)
	$(BIN)/python -m benchmarks.serving.devices $(if $(FAMILIES),--families='$(FAMILIES)')

promises: $(INSTALLED)
	$(BIN)/python -m benchmarks.accuracy.demo --picture=docs/demo_detections.jpg

chaos: $(INSTALLED)
	$(BIN)/python -m tests.campaigns.chaos $(CHAOS)

endurance: $(INSTALLED_TEST)
	$(BIN)/python -m tests.campaigns.endurance $(ENDURANCE)

fuzz: $(INSTALLED_TEST)
	$(BIN)/python -m tests.campaigns.fuzz $(FUZZ)

docs: $(INSTALLED_TEST)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

image:
	docker build --build-arg DEVICE=$(DEVICE) $(if $(PYTHON),--build-arg PYTHON=$(PYTHON:python%=%)) \
	  --tag $(IMAGE):$(DEVICE) .

clean:
	rm -rf $(VENV) $(REFERENCE_VENV) $(NEWEST_VENV)

environment:
	@PYTHON="$(PYTHON)" sh tools/create_environment.sh $(VENV)

$(INSTALLED): setup.py constraints.txt | environment
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(INSTALLED_TEST): setup.py constraints.txt | environment
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@ $(INSTALLED)
