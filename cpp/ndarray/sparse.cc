#include "cpp/ndarray/sparse.h"

namespace mxlite {
namespace {

NDArrayRef make(const TensorSpec& spec, IntrusivePtr<SparseParts> parts) {
  const Device device = parts->values->device();
  return NDArray::sparse(spec, device, std::move(parts));
}

}  // namespace

NDArrayRef make_row_sparse(const TensorSpec& spec, NDArrayRef values, NDArrayRef indices,
                           SparseForm form) {
  auto parts = make_ref<SparseParts>();
  parts->form = form;
  parts->values = std::move(values);
  parts->indices = std::move(indices);
  return make(spec, std::move(parts));
}

NDArrayRef make_csr(const TensorSpec& spec, NDArrayRef values, NDArrayRef indices,
                    NDArrayRef indptr) {
  auto parts = make_ref<SparseParts>();
  parts->stype = StorageType::kCSR;
  parts->values = std::move(values);
  parts->indices = std::move(indices);
  parts->indptr = std::move(indptr);
  return make(spec, std::move(parts));
}

NDArrayRef make_sparse_from_dense(StorageType stype, NDArrayRef dense) {
  auto parts = make_ref<SparseParts>();
  parts->stype = stype;
  parts->form = SparseForm::kDense;
  const TensorSpec spec = dense->spec();
  parts->values = std::move(dense);
  return make(spec, std::move(parts));
}

}  // namespace mxlite
