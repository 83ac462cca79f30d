/* SPDX-License-Identifier: Apache-2.0 */
/* Included first where loops are the work: whatever level the library is built at, these
 * loops are to be unrolled into registers and made into vectors, which gcc 12 does at
 * -O3 only (measured: three to six times at stake).  clang does so at -O2. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif

#if defined(__clang__)
#define UNROLL_4 _Pragma("clang loop unroll_count(4)")
#define UNROLL_8 _Pragma("clang loop unroll_count(8)")
#elif defined(__GNUC__)
#define UNROLL_4 _Pragma("GCC unroll 4")
#define UNROLL_8 _Pragma("GCC unroll 8")
#else
#define UNROLL_4
#define UNROLL_8
#endif
