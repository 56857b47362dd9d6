#include "cpp/ops/rtc/launch.h"

#include "cpp/engine/engine.h"

namespace mxlite::rtc {
namespace {

class KernelTask final : public engine::Task {
 public:
  KernelTask(const DeviceProgram::Kernel& kernel, const LaunchGrid& grid,
             std::vector<LaunchArgument> arguments, engine::Origin task_origin)
      : Task(kernel.name, task_origin),
        function_(kernel.function),
        grid_(grid),
        arguments_(std::move(arguments)) {
    for (const LaunchArgument& a : arguments_) {
      data_.push_back(a.array ? a.array->data() : nullptr);
      if (!a.array) continue;
      specs_.push_back(a.array->spec());
      uses_foreign_memory_ |= a.array->storage()->is_foreign();
    }
  }
  bool uses_foreign_memory() const { return uses_foreign_memory_; }

  void run() override {
    std::vector<KernelArgument> values;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const LaunchArgument& a = arguments_[i];
      values.push_back(a.array ? KernelArgument{&data_[i], sizeof(void*)}
                               : KernelArgument{a.number.data(), a.number_bytes});
    }
    code_loader()->launch(engine::current_stream(), function_, grid_, values);
  }
  void release_operands() noexcept override { arguments_.clear(); }
  void describe(std::string& text) const override {
    text += str("CudaKernel ", name, "(");
    for (size_t i = 0; i < specs_.size(); ++i) text += str(i ? ", " : "", specs_[i]);
    text += ")";
  }

 private:
  const CodeLoader::Function function_;
  const LaunchGrid grid_;
  std::vector<LaunchArgument> arguments_;
  std::vector<void*> data_;
  std::vector<TensorSpec> specs_;
  bool uses_foreign_memory_ = false;
};

}  // namespace

void launch_on_arrays(DeviceProgram& program, const std::string& kernel, int device,
                      const LaunchGrid& grid, std::vector<LaunchArgument> arguments,
                      engine::Origin origin) {
  const DeviceProgram::Kernel found = program.find(device, kernel);
  SmallVector<engine::Var*, 4> reads, updates;
  for (const LaunchArgument& a : arguments)
    if (a.array) (a.is_const ? reads : updates).push_back(&a.array->storage()->var());
  auto* const task = new KernelTask(found, grid, std::move(arguments), origin);
  const engine::TaskRef task_ref(task);
  engine::PushOptions options;
  options.worker = engine::WorkerKind::kCompute;
  options.device = device;
  options.keep_operands = task->uses_foreign_memory();
  engine::Engine::get().push(task_ref, {reads, {}, updates}, options);
}

}  // namespace mxlite::rtc
