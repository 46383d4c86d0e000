#!/bin/sh
# Prints a Python that the project runs on (3.9 to 3.11, with venv), or says what is missing.
fits='import sys, venv, ensurepip; raise SystemExit(not (3, 9) <= sys.version_info[:2] <= (3, 11))'
for python in "$PYTHON" python3.11 python3.10 python3.9 python3 python \
    "$HOME"/.pyenv/versions/3.11.*/bin/python "$HOME"/.pyenv/versions/3.10.*/bin/python \
    "$HOME"/.pyenv/versions/3.9.*/bin/python; do
  if [ -n "$python" ] && "$python" -c "$fits" 2>/dev/null; then
    echo "$python"
    exit 0
  fi
done
echo "No Python 3.9, 3.10 or 3.11 with venv was found (TensorFlow 2.15 has builds for no other);" \
  "install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2
exit 2
