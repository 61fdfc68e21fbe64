#include "strategies/api/backend.h"

namespace dpbench {

const char* reduction_name(c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::BAND:
      return "band";
    case c10d::ReduceOp::BOR:
      return "bor";
    case c10d::ReduceOp::BXOR:
      return "bxor";
    case c10d::ReduceOp::PREMUL_SUM:
      return "premul_sum";
    default:
      return "other";
  }
}

Registry<BackendInfo>& backend_registry() {
  static Registry<BackendInfo> registry;
  return registry;
}

RegisterBackend::RegisterBackend(BackendInfo info) {
  register_or_note([&] {
    require_field(!info.name.empty(), "backend", info.name, "name");
    require_field(static_cast<bool>(info.make), "backend", info.name, "make");
    backend_registry().add(std::move(info));
  });
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& backend, const BackendSetup& setup) {
  using Group = c10d::ProcessGroup;
  const auto made = backend_registry().at(backend).make(setup);
  auto group = c10::make_intrusive<Group>(setup.store, setup.rank, setup.world);
  // Bind the process group to its device before setBackend(), which passes the device to the backend.
  if (setup.device.is_cuda()) group->setBoundDeviceId(setup.device);
  const auto type = Group::strToBackendType(backend);
  group->setBackend(at::kCPU, type, made);
  if (setup.device.is_cuda()) group->setBackend(at::kCUDA, type, made);
  group->setDefaultBackend(type);
  return group;
}

}  // namespace dpbench
