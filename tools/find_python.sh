#!/bin/sh
# Prints a Python that has venv, or says what is missing (exit status 2).
#
# The arguments are the versions that fit, best first: without them all that the project supports.
# If the variable PYTHON names one, it is that one or an error.
[ $# -gt 0 ] || set -- 3.13 3.12 3.11 3.10 3.9
fits='import sys, venv, ensurepip; raise SystemExit("%d.%d" % sys.version_info[:2] not in sys.argv)'

if [ -n "$PYTHON" ]; then
  if "$PYTHON" -c "$fits" "$@" 2>/dev/null; then
    echo "$PYTHON"
    exit 0
  fi
  echo "PYTHON=$PYTHON does not fit; expected one of Python $* with venv." >&2
  exit 2
fi
for version in "$@"; do
  for python in "python$version" python3 python "$HOME/.pyenv/versions/$version".*/bin/python; do
    if "$python" -c "$fits" "$version" 2>/dev/null; then
      echo "$python"
      exit 0
    fi
  done
done
echo "No Python of $* with venv was found (TensorFlow has no builds for others); install one," \
  "or name it: make PYTHON=/path/to/python ..." >&2
exit 2
