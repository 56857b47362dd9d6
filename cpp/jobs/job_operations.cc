// Carries out operations of the CPU and of GPUs, and keeps the NCCL communicators of a job.
#include <algorithm>
#include <optional>
#include <thread>

#include "cpp/base/error.h"
#include "cpp/jobs/job.h"

namespace mxlite::jobs {
namespace {

// NCCL may notice that a rank is gone before its heartbeat has stopped; the heartbeat names it.
constexpr double kGrace = 3;
constexpr auto kPause = std::chrono::milliseconds(20);

}  // namespace

void Job::end_gpu_work(DeviceCommunicator& gpus, const char* reason) noexcept {
  gpus.fail_all(reason);
  try {
    gpus.stream().synchronize();
  } catch (const std::exception&) {  // A broken GPU does no work.
  }
}

void Job::run_operations(std::vector<OperationRef>& operations, std::span<const Request> requests) {
  const auto begin = Clock::now();
  const Request& first = operations[0]->request();
  const CallChannel channel = operations[0]->channel;
  const std::vector<int>& members = negotiator_.members(first.set);
  const bool on_gpus = first.device >= 0;
  size_t bytes = 0;
  for (const auto& o : operations) bytes += o->asked->bytes;
  DeviceCommunicator* gpus = nullptr;
  try {
    std::string problem;
    if (on_gpus) gpus = gpu_group(first.set, problem);
    if (!problem.empty()) {
      problem = str(collective_name(first.kind), " of '", first.name, "': ", problem);
      notify(operations, communicator_error(problem.c_str()));
      return operations.clear();
    }
    std::optional<GpuMemory> gpu_memory;
    if (gpus) gpu_memory.emplace(*gpus).wait_for_allocations(StreamKind::kCopyIn);
    if (gpus && std::any_of(operations.begin(), operations.end(),
                            [](const OperationRef& o) { return o->fresh_in_compute; }))
      gpu_memory->wait_for_allocations(StreamKind::kCompute);
    const Carrier carrier =
        gpus ? Carrier{*gpus, *gpu_memory} : Carrier{*groups_.at(first.set), host_memory_};
    if (channel.is_message()) {
      const auto place = [&](int r) {
        return static_cast<int>(std::find(members.begin(), members.end(), r) - members.begin());
      };
      carrier.group.describe(first.name);
      runner_.message(operations[0].get(), carrier, place(channel.from), place(channel.to));
    } else {
      runner_.run(operations, requests, carrier, members);
    }
    {
      std::lock_guard lock(mutex_);
      ++stats_.responses;
      stats_.tensors += operations.size();
      if (on_gpus) stats_.nccl_tensors += operations.size();
      stats_.bytes += bytes;
      stats_.collective_ns += static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
    }
    if (gpus)
      gpus->when_done([operations](std::exception_ptr error) { notify(operations, error); });
    else
      notify(operations, nullptr);
  } catch (const std::exception& e) {
    if (gpus) end_gpu_work(*gpus, e.what());
    notify(operations, communicator_error(e.what()));
    throw;
  }
  operations.clear();
}

Device Job::place_of(Device device, DType dtype) {
  if (device.type != DeviceType::kCUDA) return device;
  if (!travels_through_nccl(device, dtype)) return {DeviceType::kPinned, 0};
  int chosen = -1;  // the first GPU that is given here
  if (gpu_.compare_exchange_strong(chosen, device.index)) chosen = device.index;
  return {DeviceType::kCUDA, chosen};
}

DeviceCommunicator* Job::gpu_group(int set, std::string& problem) {
  const auto [place, fresh] = gpu_groups_.try_emplace(set);
  GpuGroup& group = place->second;
  if (fresh) {
    Communicator& processes = *groups_.at(set);
    const std::vector<int>& members = negotiator_.members(set);
    const DeviceRank me{processes.rank(), processes.size(), gpu_.load(), members,
                        [this] { control_->look(); }};
    group.communicator = make_device_communicator(processes, me, group.problem);
  }
  problem = group.problem;
  return group.communicator.get();
}

bool Job::gpus_busy() {
  for (const auto& [set, group] : gpu_groups_)
    if (group.communicator && group.communicator->busy()) return true;
  return false;
}

void Job::look_at_gpus() {
  try {
    for (const auto& [set, group] : gpu_groups_)
      if (group.communicator) group.communicator->look();
  } catch (const std::exception&) {
    for (const Deadline grace(kGrace); !grace.over(); std::this_thread::sleep_for(kPause))
      control_->look();
    throw;
  }
}

}  // namespace mxlite::jobs
