// The dialect is what kernels may use in addition to C++14. If Metal has a name for something, the
// dialect uses that name. This header defines these names for the other platforms.
//
//     KERNEL(name)(IN(float, x, 0), OUT(float, y, 1), PARAMS(name_params, p, 2) INDICES)
//
// Address spaces are device, threadgroup, constant and thread. Every pointer names one.
//
// Indices: thread_x is the thread in a threadgroup of THREADS threads, simd_x is the SIMD group
// of 32 threads in the threadgroup, lane is the thread in the SIMD group, and group_x, group_y
// and group_z are the threadgroup in the grid.
//
// Collectives: all threads of the threadgroup must reach a barrier, and all lanes of a SIMD
// group must reach simd_sum, simd_max and simd_shuffle_xor.
//
// Numbers: 16-bit floats are ushort in memory, and arithmetic is in float. The compiler never
// contracts a product and a sum; kernels call fma where they need a fused operation.
//
// Kernels with MMA 1 may also call mma. It is a collective of a SIMD group that computes c +=
// a·b, for a of 16 by 16 halves, b of 16 by 8 halves and c of 16 by 8 floats. A word holds two
// adjacent halves of a row of a, or of a column of b. With r = l/4 and s = 2·(l%4), lane l
// holds:
//
// - a: words at (row r, columns s and s+1), (r+8, s), (r, s+8) and (r+8, s+8)
// - b: words at (rows s and s+1, column r) and (rows s+8 and s+9, column r)
// - c: floats at (row r, column s), (r, s+1), (r+8, s) and (r+8, s+1)
//
// Source: NVIDIA's PTX manual, mma.m16n8k16.
#define LOWEST (-3.402823466e38f) // stands for minus infinity, and is finite

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
typedef ulong wide;
#define KERNEL(name) kernel void name
#define IN(T, name, i) device const T *name [[buffer(i)]]
#define OUT(T, name, i) device T *name [[buffer(i)]]
#define INOUT(T, name, i) device T *name [[buffer(i)]]
#define PARAMS(T, name, i) constant T &name [[buffer(i)]]
#define INDICES , uint3 group_xyz [[threadgroup_position_in_grid]], uint thread_x [[thread_index_in_threadgroup]]
#define group_x group_xyz.x
#define group_y group_xyz.y
#define group_z group_xyz.z
#define FUNC static inline
#define SHARED(T, name, n) threadgroup T name[n]
#define UNROLL _Pragma("clang loop unroll(full)")
#define barrier() threadgroup_barrier(mem_flags::mem_threadgroup)
FUNC uint as_uint(float v) { return as_type<uint>(v); }
FUNC float as_float(uint v) { return as_type<float>(v); }
FUNC float half_to_float(ushort h) { return float(as_type<half>(h)); }
FUNC ushort float_to_half(float v) { return as_type<ushort>(half(v)); }
FUNC uint atomic_add(device uint *p, uint v) {
	return atomic_fetch_add_explicit((device atomic_uint *)p, v, memory_order_relaxed);
}
#define exp precise::exp
#define log precise::log
#define tanh precise::tanh
#define atan2 precise::atan2
#define sqrt precise::sqrt

#else
#define device
#define thread
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef unsigned long long wide; // 64 bits

#if defined(GODWIT_EMULATOR)
// emu.h defines the rest. The compiler includes it first.
#define threadgroup
#define constant static const
#define IN(T, name, i) const T *name
#define OUT(T, name, i) T *name
#define INOUT(T, name, i) T *name
#define PARAMS(T, name, i) const T &name
#define INDICES , gd::Indices gd_at
#define FUNC static inline
#define UNROLL

#else // CUDA and HIP
// The headers of CUDA and HIP define __device__ and __constant__ as macros that expand to
// attributes named device and constant, which are macros of this dialect. The attributes in the
// definitions below have underscores in their names and the same meaning.
#undef __device__
#undef __constant__
#define threadgroup
#define constant static __attribute__((__constant__)) const
#define IN(T, name, i) const T *__restrict__ name
#define OUT(T, name, i) T *__restrict__ name
#define INOUT(T, name, i) T *name
#define PARAMS(T, name, i) const T name
#define INDICES
#define FUNC static inline __attribute__((__device__, __always_inline__))
#define SHARED(T, name, n) __shared__ T name[n]
#define UNROLL _Pragma("unroll")
#define barrier() __syncthreads()
#define thread_x threadIdx.x
#define group_x blockIdx.x
#define group_y blockIdx.y
#define group_z blockIdx.z
FUNC uint as_uint(float v) { return __float_as_uint(v); }
FUNC float as_float(uint v) { return __uint_as_float(v); }
FUNC uint atomic_add(uint *p, uint v) { return atomicAdd(p, v); }
#if defined(__HIP__)
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(THREADS) name
#define SHUFFLE(v, mask) __shfl_xor(v, mask, 32)
FUNC float half_to_float(ushort h) { return float(__builtin_bit_cast(_Float16, h)); }
FUNC ushort float_to_half(float v) { return __builtin_bit_cast(ushort, (_Float16)v); }
#else
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(LAUNCH_BOUNDS) name
#define SHUFFLE(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)
FUNC float half_to_float(ushort h) { float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h)); return v; }
FUNC ushort float_to_half(float v) { ushort h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
FUNC void mma(float *c, const uint *a, const uint *b) {
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
FUNC float simd_shuffle_xor(float v, uint mask) { return SHUFFLE(v, mask); }
FUNC uint simd_shuffle_xor(uint v, uint mask) { return SHUFFLE(v, mask); }
FUNC float simd_sum(float v) {
	for (uint m = 16; m > 0; m /= 2) v += SHUFFLE(v, m);
	return v;
}
FUNC float simd_max(float v) {
	for (uint m = 16; m > 0; m /= 2) v = max(v, SHUFFLE(v, m));
	return v;
}
#endif
#endif

#define lane (thread_x % 32u)
#define simd_x (thread_x / 32u)

// from_half reads a little-endian f16 at an even byte address.
FUNC float from_half(device const uchar *p) { return half_to_float(*(device const ushort *)p); }

// from_bfloat converts a bfloat16 to float.
FUNC float from_bfloat(ushort h) { return as_float(uint(h) << 16); }

// group_sum adds v over the threadgroup and returns the sum to every thread. The order of the
// additions is fixed. room must hold one float per SIMD group. All threads must call it.
FUNC float group_sum(float v, threadgroup float *room, uint thread_index) {
	v = simd_sum(v);
	barrier();
	if (thread_index % 32 == 0) room[thread_index / 32] = v;
	barrier();
	v = 0;
	for (uint i = 0; i < THREADS / 32; i++) v += room[i];
	return v;
}
