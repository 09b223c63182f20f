#!/usr/bin/env bash
# generate.sh compiles the kernels to PTX on any Linux machine with Python and
# network, without a GPU. The compiler NVRTC comes from NVIDIA's Python package.
# Its version decides the version of the PTX, and so which drivers accept the
# PTX. NVRTC 11.8 writes PTX 7.8, for drivers of CUDA 11.8 and newer. Kernels
# that have not changed are not compiled again. Commit the result, because
# TestPackIsFresh compares hashes.
set -euo pipefail
cd "$(dirname "$0")"

lib=$(./fetch.sh nvrtc-11.8 nvidia-cuda-nvrtc-cu11==11.8.89 nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2)
go run ./gen -nvrtc "$lib" -o kernels.zip
