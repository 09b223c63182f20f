#!/usr/bin/env bash
# check.sh assembles the PTX of every kernel for the architectures named, by
# default all that are served, with NVIDIA's ptxas from its package, and prints
# registers, spills and shared memory. It needs no GPU.
#
#   cuda/check.sh [75,86,90]
set -euo pipefail
cd "$(dirname "$0")"

package=nvidia-cuda-nvcc-cu12==12.9.86
cache=${XDG_CACHE_HOME:-$HOME/.cache}/godwit/nvcc-12.9
ptxas=$cache/nvidia/cuda_nvcc/bin/ptxas
if [ ! -e "$ptxas" ]; then
	python3 -m pip install --quiet --no-deps --target "$cache" "$package"
fi
chmod +x "$ptxas"
go run ./gen -ptxas "$ptxas" -sm "${1:-75,80,86,89,90,100,120}" -o kernels.zip
