// The dialect: what the kernels may use beside C++14 itself, spelled as Metal
// spells it wherever Metal has a word, and given here to the other platforms.
//
//   KERNEL(name)(IN(float, x, 0), OUT(float, y, 1), PARAMS(name_params, p, 2) INDICES)
//
// Address spaces: device, threadgroup, constant, thread; every pointer says one.
// Threads: thread_x in a threadgroup of THREADS, lane in a SIMD group of 32,
// simd_x the number of that group, group_x/y/z the threadgroup in the grid.
// Collectives (barrier, simd_sum, simd_max, simd_shuffle_xor) must be reached by
// all threads, those of a SIMD group by all its lanes. 16-bit floats are ushort
// in memory; arithmetic is float. Products and sums never contract: a fused
// one is written fma.
// mma, where kernels with MMA 1 run, is a collective of a SIMD group: c += a·b for
// matrices of 16 by 16 and 16 by 8 halves, two in a word. Lane l holds of a the
// words of rows l/4 and l/4+8 at columns 2·(l%4), then both 8 columns on; of b
// those of column l/4 at the same rows, then 8 on; of c two columns from 2·(l%4)
// on, of rows l/4 and l/4+8.
#define LOWEST (-3.402823466e38f) // stands for minus infinity

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
// The rest comes from emu.h, which the compiler reads first.
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
// Their own words expand to attributes named device and constant, which are
// words of ours; the names between underscores mean the same.
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

// from_half reads a little-endian f16 at a byte address, which is even.
FUNC float from_half(device const uchar *p) { return half_to_float(*(device const ushort *)p); }

// from_bfloat widens a bfloat16.
FUNC float from_bfloat(ushort h) { return as_float(uint(h) << 16); }

// group_sum adds v over the threadgroup, in the same order whatever the values.
// room holds a value for each SIMD group.
FUNC float group_sum(float v, threadgroup float *room, uint thread_index) {
	v = simd_sum(v);
	barrier();
	if (thread_index % 32 == 0) room[thread_index / 32] = v;
	barrier();
	v = 0;
	for (uint i = 0; i < THREADS / 32; i++) v += room[i];
	return v;
}
