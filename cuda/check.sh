#!/usr/bin/env bash
# check.sh assembles the PTX of the kernels with NVIDIA's ptxas from its package,
# without a GPU. By itself it does so for all architectures that are served,
# for the images that changed since the record assembled.txt, renews the record
# and sums it up. With a list of architectures it leaves the record alone, and
# assembles what changed, every few where much did, and one image of each kernel.
# An image that spills registers is an error both ways.
#
#   cuda/check.sh [75,86,90]
set -euo pipefail
cd "$(dirname "$0")"

ptxas=$(./fetch.sh nvcc-12.9 nvidia-cuda-nvcc-cu12==12.9.86 nvidia/cuda_nvcc/bin/ptxas)
go run ./gen -ptxas "$ptxas" -sm "${1:-}" -record assembled.txt -o kernels.zip
