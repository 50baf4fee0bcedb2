// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensor-core products, matrix loads and asynchronous copies: inline PTX under nvcc, an emulation
// with the same fragment layouts under a C++ compiler. All lanes of a warp call mma and ldmatrix
// together. Compute capability 8.0: kernels that use this header compile for older devices, but end
// there with an error when they are launched.
//
// Fragments of m16n8k16, g = lane / 4, t = lane % 4; a register holds two bfloat16, low first:
//   a[0] (g, 2t)  a[1] (g + 8, 2t)  a[2] (g, 2t + 8)  a[3] (g + 8, 2t + 8)      rows x k
//   b[0] (2t, g)  b[1] (2t + 8, g)                                              k x columns
//   c, d: [0] (g, 2t)  [1] (g, 2t + 1)  [2] (g + 8, 2t)  [3] (g + 8, 2t + 1)    rows x columns

#include "kernels/cuda/gpu.hpp"

#include <cstring>

#if !defined(__CUDACC__)
#include "hostcuda/mma_emulation.hpp"
#endif

namespace evener::kernels::cuda {

#if defined(__CUDACC__)

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define EVENER_SINCE_80(...) __trap()
#else
#define EVENER_SINCE_80(...) asm volatile(__VA_ARGS__)
#endif // undefined again below

/// d = a * b + c; a and b bfloat16, c and d float32. d and c may be the same array.
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], std::uint32_t const (&a)[4],
                                             std::uint32_t const (&b)[2], float const (&c)[4]) {
    EVENER_SINCE_80("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
                    : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                      "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ std::uint32_t shared_address(void const* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory; lane 8 i + r brings the address of
/// row r (16 bytes, aligned) of matrix i.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&registers)[4], void const* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// As ldmatrix_x4, each matrix transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&registers)[4], void const* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/// Two matrices; the addresses of lanes 16 to 31 are not used.
__device__ __forceinline__ void ldmatrix_x2(std::uint32_t (&registers)[2], void const* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(registers[0]), "=r"(registers[1])
                 : "r"(shared_address(row))
                 : "memory");
}

/// As ldmatrix_x2, each matrix transposed.
__device__ __forceinline__ void ldmatrix_x2_trans(std::uint32_t (&registers)[2], void const* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(registers[0]), "=r"(registers[1])
                 : "r"(shared_address(row))
                 : "memory");
}

/// Starts a copy of 16 bytes from global to shared memory, both aligned; zeros when not `valid`
/// (then `src` is not read).
__device__ __forceinline__ void cp_async16(void* dst, void const* src, bool valid = true) {
    EVENER_SINCE_80("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(dst)),
                    "l"(src), "r"(valid ? 16 : 0)
                    : "memory");
}

/// The copies this thread started since its last commit become a group.
__device__ __forceinline__ void cp_async_commit() {
    EVENER_SINCE_80("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `groups` of this thread's youngest groups are in flight. Other threads' need
/// a barrier besides.
template <int groups>
__device__ __forceinline__ void cp_async_wait() {
    EVENER_SINCE_80("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

#undef EVENER_SINCE_80

#else

inline void mma_m16n8k16(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2],
                         float const (&c)[4],
                         hostcuda::Location location = hostcuda::Location::current()) {
    hostcuda::mma_m16n8k16(d, a, b, c, location);
}

inline void ldmatrix_x4(std::uint32_t (&registers)[4], void const* row,
                        hostcuda::Location location = hostcuda::Location::current()) {
    hostcuda::ldmatrix("ldmatrix.x4", registers, row, 4, hostcuda::Transpose::no, location);
}

inline void ldmatrix_x4_trans(std::uint32_t (&registers)[4], void const* row,
                              hostcuda::Location location = hostcuda::Location::current()) {
    hostcuda::ldmatrix("ldmatrix.x4.trans", registers, row, 4, hostcuda::Transpose::yes, location);
}

inline void ldmatrix_x2(std::uint32_t (&registers)[2], void const* row,
                        hostcuda::Location location = hostcuda::Location::current()) {
    hostcuda::ldmatrix("ldmatrix.x2", registers, row, 2, hostcuda::Transpose::no, location);
}

inline void ldmatrix_x2_trans(std::uint32_t (&registers)[2], void const* row,
                              hostcuda::Location location = hostcuda::Location::current()) {
    hostcuda::ldmatrix("ldmatrix.x2.trans", registers, row, 2, hostcuda::Transpose::yes, location);
}

inline void cp_async16(void* dst, void const* src, bool valid = true) {
    hostcuda::start_async_copy(dst, src, valid);
}

inline void cp_async_commit() {
    hostcuda::commit_async_copies();
}

template <int groups>
void cp_async_wait() {
    hostcuda::wait_async_copies(groups);
}

#endif

/// 2^x to two units in the last place; 0 where the result is below the normal numbers.
__device__ __forceinline__ float exp2_approximate(float x) {
#if defined(__CUDACC__)
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#else
    return exp2f(x);
#endif
}

/// Two floats rounded to bfloat16, `first` in the low half.
__device__ __forceinline__ std::uint32_t pack_bf16(float first, float second) {
    __nv_bfloat162 const pair = __floats2bfloat162_rn(first, second);
    std::uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}

} // namespace evener::kernels::cuda
