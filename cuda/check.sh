#!/usr/bin/env bash
# check.sh assembles the PTX of the kernels with ptxas from NVIDIA's package,
# without a GPU.
#
# Without arguments, it assembles the images that changed since the record
# assembled.txt for all served architectures, updates the record and prints a
# summary. With a list of architectures, it leaves the record alone. It then
# assembles the changed images, or only some of them if many have changed, and
# one image of each kernel. In both modes, an image that spills registers is an
# error.
#   cuda/check.sh [75,86,90]
set -euo pipefail
cd "$(dirname "$0")"

ptxas=$(./fetch.sh nvcc-12.9 nvidia-cuda-nvcc-cu12==12.9.86 nvidia/cuda_nvcc/bin/ptxas)
go run ./gen -ptxas "$ptxas" -sm "${1:-}" -record assembled.txt -o kernels.zip
