#!/bin/sh
# Creates a virtual environment with the Python that PYTHON names, or else the newest one here.
#
#   PYTHON=python3.11 sh tools/create_environment.sh .venv-2.15
#
# An environment that is there stays, unless PYTHON names another version: that is an error.
folder=$1
version='import sys; print("%d.%d" % sys.version_info[:2])'

if [ ! -x "$folder/bin/python" ]; then
  python=$(sh "${0%/*}/find_python.sh") && "$python" -m venv "$folder"
elif [ -n "$PYTHON" ]; then
  python=$(sh "${0%/*}/find_python.sh") || exit 2
  present=$("$folder/bin/python" -c "$version")
  wanted=$("$python" -c "$version")
  if [ "$present" != "$wanted" ]; then
    echo "$folder has Python $present, and PYTHON=$PYTHON is $wanted: remove $folder," \
      "or name another folder: make VENV=.venv-$wanted PYTHON=$PYTHON ..." >&2
    exit 2
  fi
fi
