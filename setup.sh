#!/bin/sh
# Creates the virtual environment and installs the project into it: setup.sh PYTHON VENV
# A PyTorch that the machine already has is used as it is; elsewhere the pinned versions are installed.
set -eu
python=$1
venv=$2

"$python" - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"attnbench needs Python 3.11 or newer; this is {sys.version.split()[0]}. "
             "Name another one: make PYTHON=python3.12 …")
PY

has_torch() {
    "$python" - <<'PY'
import sys
try:
    import torch
except Exception:
    sys.exit(1)
sys.exit(tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 10))
PY
}

# Debian ships venv in a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "installing Debian's python$version-venv, which this Python lacks"
    if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi
    $as_root apt-get update -qq && $as_root apt-get install -y -qq "python$version-venv" ||
        { echo "please install python$version-venv and run make again" >&2; exit 1; }
fi

pins=constraints.txt
if has_torch; then
    echo "using the PyTorch that is installed here"
    "$python" -m venv --system-site-packages "$venv"
    pins=$venv/constraints.txt
    grep -vE '^(torch|triton|xformers)==' constraints.txt > "$pins"
else
    "$python" -m venv "$venv"
fi
echo "installing attnbench into $venv (the first time takes minutes: PyTorch is large)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --constraint "$pins" --editable '.[dev]'
