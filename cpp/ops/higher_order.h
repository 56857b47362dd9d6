// Gradients of gradients. Many gradients are one fused kernel, which has no gradient itself; while
// a gradient is computed that will be differentiated (autograd.grad(create_graph=True)), such rules
// emit ordinary operators instead.
#pragma once

namespace mxlite {

// True in a gradient rule whose result will be differentiated.
bool differentiates_gradient();

class HigherOrderScope {
 public:
  explicit HigherOrderScope(bool value);
  ~HigherOrderScope();
  HigherOrderScope(const HigherOrderScope&) = delete;
  HigherOrderScope& operator=(const HigherOrderScope&) = delete;

 private:
  bool before_;
};

}  // namespace mxlite
