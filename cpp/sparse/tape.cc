#include "cpp/sparse/tape.h"

#include <utility>

#include "cpp/autograd/mode.h"
#include "cpp/sparse/parts.h"

namespace mxlite::sparse {
namespace {

class CallOnParts final : public autograd::TapeNode {
 public:
  CallOnParts(const char* name, bool takes_sparse, Backward backward)
      : name_(name), takes_sparse_(takes_sparse), backward_(std::move(backward)) {}
  const char* name() const override { return name_; }
  std::vector<NDArrayRef> backward(std::span<const NDArrayRef> output_grads,
                                   std::span<const uint8_t>) override {
    return backward_(output_grads);
  }
  void release_saved() override { backward_ = nullptr; }
  bool takes_sparse() const override { return takes_sparse_; }

 private:
  const char* const name_;
  const bool takes_sparse_;
  Backward backward_;
};

std::vector<NDArrayRef> same_gradient(std::span<const NDArrayRef> grads) {
  return {grads.begin(), grads.end()};
}

const char* name_of(StorageType stype) {
  return stype == StorageType::kCSR         ? "csr"
         : stype == StorageType::kRowSparse ? "row_sparse"
                                            : "default";
}

}  // namespace

bool is_recorded(const NDArrayRef& array) {
  return autograd::mode.recording && autograd::needs_record({&array, 1});
}

void record(const char* name, const NDArrayRef& data, const NDArrayRef& result, bool takes_sparse,
            Backward backward) {
  if (!is_recorded(data)) return;
  const auto node = make_ref<CallOnParts>(name, takes_sparse, std::move(backward));
  node->connect(std::span(&data, 1), std::span(&result, 1));
}

NDArrayRef cast_storage(const NDArrayRef& data, StorageType stype) {
  const StorageType from = storage_type(*data);
  if (from == stype) return data;
  MX_CHECK(from == StorageType::kDefault || stype == StorageType::kDefault, "cast_storage from ",
           name_of(from), " to ", name_of(stype), " is not supported");
  NDArrayRef result = stype == StorageType::kDefault ? dense(data) : sparse_of_dense(data, stype);
  if (!is_recorded(data)) return result;
  result = result->detached();
  record("cast_storage", data, result, /*takes_sparse=*/true, same_gradient);
  return result;
}

NDArrayRef dense_operand(const NDArrayRef& array) {
  if (!array->is_sparse()) return array;
  const bool all_rows = storage_type(*array) == StorageType::kRowSparse &&
                        normal_parts(array).values->shape() == array->shape();
  const NDArrayRef result = (all_rows ? normal_parts(array).values : dense(array))->detached();
  record("cast_storage", array, result, /*takes_sparse=*/true, same_gradient);
  return result;
}

}  // namespace mxlite::sparse
