#!/usr/bin/env bash
# generate.sh compiles the kernels to PTX on any Linux machine with Python and
# network, without a GPU. NVRTC comes from its package; its version decides the
# version of the PTX, and so which drivers take it: 11.8 writes PTX 7.8, for
# drivers of CUDA 11.8 and newer. Kernels that have not changed are not compiled
# again. The result belongs in the commit; TestPackIsFresh compares hashes.
set -euo pipefail
cd "$(dirname "$0")"

package=nvidia-cuda-nvrtc-cu11==11.8.89
cache=${XDG_CACHE_HOME:-$HOME/.cache}/godwit/nvrtc-11.8
lib=$cache/nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2
if [ ! -e "$lib" ]; then
	python3 -m pip install --quiet --no-deps --target "$cache" "$package"
fi
go run ./gen -nvrtc "$lib" -o kernels.zip
