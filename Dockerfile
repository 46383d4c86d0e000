# syntax=docker/dockerfile:1
# Image of this project, with the versions that CI tested.
#
#   make image                     for CPUs
#   make image DEVICE=gpu          with the libraries of CUDA; the host needs NVIDIA's toolkit
#   make image PYTHON=python3.11   with TensorFlow 2.15 in place of the newest

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS wheel
WORKDIR /source
COPY setup.py pyproject.toml README.md LICENSE run_train_eval.py ./
COPY configs ./configs
COPY protos ./protos
COPY estimator_lib ./estimator_lib
COPY model_fns ./model_fns
COPY vision_extras ./vision_extras
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim
ARG DEVICE=cpu
COPY constraints.txt /constraints.txt
COPY --from=wheel /wheels /wheels
# The cache is of the builder, and not in the image: a change of code loads nothing again.
RUN --mount=type=cache,target=/root/.cache/pip \
    case "$DEVICE" in \
      cpu) extras=serving,onnx,hub ;; \
      gpu) extras=serving,onnx,hub,gpu ;; \
      *) echo "DEVICE=$DEVICE; expected cpu or gpu" >&2; exit 2 ;; \
    esac \
    && pip install --constraint /constraints.txt "$(ls /wheels/*.whl)[$extras]" \
    && rm -r /wheels

# What NVIDIA's container toolkit gives to a container; without a GPU they have no effect.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

# A number, because Kubernetes cannot tell whether a name is root's.
RUN useradd --create-home --uid 1000 vision
USER 1000:1000
WORKDIR /home/vision
ENTRYPOINT ["run-train-eval"]
CMD ["--help"]
