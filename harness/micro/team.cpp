#include "harness/micro/team.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <set>
#include <string>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/api/backend.h"

namespace dpbench::micro {
namespace {

std::string own_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

CommBackend make_backend(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, const Seat& seat,
                         int world, at::Device device) {
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name + std::to_string(world), store);
  const int first_of_host = seat.rank - seat.local_rank;
  return backend_registry().at(name).make({.store = prefixed,
                                           .rank = seat.rank,
                                           .world = world,
                                           .local_rank = seat.local_rank,
                                           .local_world = std::min(seat.local_ranks, world - first_of_host),
                                           .device = device,
                                           .timeout = std::chrono::seconds(60),
                                           .directory = ""});
}

// Key under which the store has the number of the first rank on the host of `rank`.
std::string first_key(int rank) { return "first/" + std::to_string(rank); }

// Tells all ranks the host of this rank, and returns the result of Team::host() for each rank.
std::vector<std::string> exchanged_hosts(c10d::Store& store, const Seat& seat) {
  store.set("host/" + std::to_string(seat.rank), own_host());
  store.set(first_key(seat.rank), std::to_string(seat.rank - seat.local_rank));
  std::vector<std::string> names, hosts;
  std::map<std::string, std::set<std::string>> hosts_named;
  for (int rank = 0; rank < seat.ranks; ++rank) {
    names.push_back(store.get_to_str("host/" + std::to_string(rank)));
    hosts.push_back(names.back() + "@" + store.get_to_str(first_key(rank)));
    hosts_named[names.back()].insert(hosts.back());
  }
  for (size_t rank = 0; rank < names.size(); ++rank)
    if (hosts_named[names[rank]].size() == 1) hosts[rank] = names[rank];
  return hosts;
}

}  // namespace

Team::Team(const Seat& seat, c10::intrusive_ptr<c10d::Store> store, at::Device device)
    : seat_(seat), device_(device), store_(std::move(store)), hosts_(exchanged_hosts(*store_, seat)) {
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>("control", store_);
  control_ = make_backend("gloo", prefixed, seat, seat.ranks, at::kCPU);
}

at::Device Team::device_of(int rank) const {
  if (device_.is_cpu()) return device_;
  const int local_rank = rank - std::stoi(store_->get_to_str(first_key(rank)));
  const int gpus = c10::impl::VirtualGuardImpl(device_.type()).deviceCount();
  return {device_.type(), static_cast<c10::DeviceIndex>(local_rank % gpus)};
}

void Team::synchronize() const {
  if (!device_.is_cpu()) c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
}

CommBackend Team::backend(const std::string& name, int world) {
  CommBackend& found = backends_[{name, world}];
  if (!found) found = make_backend(name, store_, seat_, world, device_);
  return found;
}

double Team::sum(double value) {
  std::vector<at::Tensor> tensors{at::full({1}, value, at::kDouble)};
  control_->allreduce(tensors, {})->wait();
  return tensors[0].item<double>();
}

Verified Team::verify(const std::function<double()>& call) {
  Verified verified;
  try {
    verified.wrong = call();
  } catch (const c10::Error& thrown) {
    verified.error = thrown.what_without_backtrace();
  } catch (const std::exception& thrown) {
    verified.error = thrown.what();
  }
  // A rank that takes no part in the call has no error, so it counts neither as failed nor as unsupported.
  const double errors = sum(verified.error.empty() ? 0 : 1), lacking = sum(is_unsupported(verified.error) ? 1 : 0);
  if (errors > 0 && verified.error.empty()) verified.error = "another rank failed";
  verified.wrong = sum(verified.wrong);
  failed = failed || errors > lacking || verified.wrong > 0;
  unsupported = unsupported || lacking > 0;
  worked = worked || errors == 0;
  return verified;
}

}  // namespace dpbench::micro
