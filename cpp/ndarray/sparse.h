// Sparse arrays: an array whose memory is a few dense ones. Python works on the parts
// (mxlite/ndarray/sparse/); the tape passes row-sparse gradients along.
#pragma once
#include "cpp/ndarray/ndarray.h"

namespace mxlite {

enum class StorageType : uint8_t { kDefault = 0, kRowSparse = 1, kCSR = 2 };  // codes of .params

// Gradients are converted to the normal form only when a program reads them, because the conversion
// waits: the shape of the normal form depends on values.
enum class SparseForm : uint8_t {
  kNormal,  // row_sparse: rows ascend, each once
  kRows,    // row_sparse: rows in any order; equal ones are added up
  kDense,   // values is the whole array, without indices
};

class SparseParts final : public SparseInfo {
 public:
  StorageType stype = StorageType::kRowSparse;
  SparseForm form = SparseForm::kNormal;
  NDArrayRef values;   // row_sparse: (rows, ...); csr: (nonzeros,)
  NDArrayRef indices;  // int64: rows, or columns of a csr array
  NDArrayRef indptr;   // csr, int64: begin of each row, (rows + 1,)
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
// Holds a dense array that reads as a sparse one.
NDArrayRef make_sparse_from_dense(StorageType stype, NDArrayRef dense);

}  // namespace mxlite
