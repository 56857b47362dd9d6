// Sparse arrays. Each sparse array consists of a few dense arrays, its parts. Python implements the
// operators on parts (mxlite/ndarray/sparse/). C++ passes row-sparse gradients along the tape.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

// The values are the same as in .params files.
enum class StorageType : uint8_t { kDefault = 0, kRowSparse = 1, kCSR = 2 };

// Form of a sparse array. Gradients are converted to the normal form only when a program reads
// them. The shape of the normal form depends on values, so the conversion must wait for these
// values.
enum class SparseForm : uint8_t {
  kNormal,  // row_sparse: rows are sorted and distinct
  kRows,    // row_sparse: rows in any order; values of equal rows are summed
  kDense,   // `values` is the dense array, and `indices` is null
};

class SparseParts final : public SparseInfo {
 public:
  StorageType stype = StorageType::kRowSparse;
  SparseForm form = SparseForm::kNormal;
  NDArrayRef values;   // row_sparse: (rows, ...); csr: (nonzeros,)
  NDArrayRef indices;  // int64: row numbers, or column numbers of a csr array
  NDArrayRef indptr;   // csr, int64: first position of each row, (rows + 1,)
};

inline SparseParts& sparse_parts(const NDArray& a) {
  return *static_cast<SparseParts*>(a.sparse_info().get());
}
inline StorageType storage_type(const NDArray& a) {
  return a.is_sparse() ? sparse_parts(a).stype : StorageType::kDefault;
}

NDArrayRef make_row_sparse(const TensorSpec& spec, NDArrayRef values, NDArrayRef indices,
                           SparseForm form = SparseForm::kNormal);
NDArrayRef make_csr(const TensorSpec& spec, NDArrayRef values, NDArrayRef indices,
                    NDArrayRef indptr);
// Returns a sparse array in the form kDense.
NDArrayRef make_sparse_from_dense(StorageType stype, NDArrayRef dense);

}  // namespace mxlite
