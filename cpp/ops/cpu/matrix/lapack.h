// Routines of the LAPACK library that is part of NumPy.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace mxlite::lapack {

// Sets the path of a library that contains LAPACK or is linked against it.
void set_library(const std::string& path);

// All integer arguments point to 64-bit integers. A library with 32-bit integers reads and writes
// only the low half, so results must be initialized and read with `low_half`.
static_assert(std::endian::native == std::endian::little);
inline int32_t low_half(int64_t value) { return static_cast<int32_t>(value); }

// Returns the address of a routine such as "dgesdd". Throws a not-supported error of operator `op`
// if there is no LAPACK.
void* find(const char* op, const std::string& routine);

// Types of the routines for element type T. The lengths of string arguments come last.
template <class T>
using Gesdd = void (*)(const char* job, const int64_t* m, const int64_t* n, T* a,
                       const int64_t* lda, T* s, T* u, const int64_t* ldu, T* vt,
                       const int64_t* ldvt, T* work, const int64_t* lwork, int64_t* iwork,
                       int64_t* info, size_t job_length);
template <class T>
using Geqrf = void (*)(const int64_t* m, const int64_t* n, T* a, const int64_t* lda, T* tau,
                       T* work, const int64_t* lwork, int64_t* info);
template <class T>
using Orgqr = void (*)(const int64_t* m, const int64_t* n, const int64_t* k, T* a,
                       const int64_t* lda, const T* tau, T* work, const int64_t* lwork,
                       int64_t* info);
template <class T>
using Geev = void (*)(const char* left, const char* right, const int64_t* n, T* a,
                      const int64_t* lda, T* real, T* imaginary, T* vl, const int64_t* ldvl, T* vr,
                      const int64_t* ldvr, T* work, const int64_t* lwork, int64_t* info,
                      size_t left_length, size_t right_length);

}  // namespace mxlite::lapack
