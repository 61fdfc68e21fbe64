// BatchCopies copies samples to a device on a side stream. The tests use torch's "meta" device, which has no memory,
// and log every stream operation in order.
#include <atomic>
#include <deque>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include "strategies/api/parts/batch_copies.h"
#include "strategies/graphs/packed_batches.h"

namespace dpbench {
namespace {

using Tensors = std::vector<at::Tensor>;
using Log = std::vector<std::string>;

constexpr c10::StreamId computing = 0, beside = 7;

class LoggingDevice final : public c10::impl::DeviceGuardImplInterface {
 public:
  void begin() const { log_.clear(), names_.clear(); }
  Log take() const { return std::exchange(log_, {}); }
  void log(const std::string& what) const { log_.push_back(what); }
  void log_copy() const { log("copy " + on(stream(current_))); }

  at::DeviceType type() const override { return at::kMeta; }
  at::Device exchangeDevice(at::Device) const override { return at::kMeta; }
  at::Device getDevice() const override { return at::kMeta; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(at::Device) const override { return stream(current_); }
  c10::Stream getStreamFromGlobalPool(at::Device, bool) const override { return stream(beside); }
  c10::Stream exchangeStream(c10::Stream next) const override { return stream(std::exchange(current_, next.id())); }
  void record(void** event, const c10::Stream& where, c10::DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = &names_.emplace_back("event " + std::to_string(names_.size() + 1));
    log(name(*event) + " " + on(where));
  }
  void block(void* event, const c10::Stream& where) const override { log("wait for " + name(event) + " " + on(where)); }
  void synchronizeEvent(void* event) const override { log("the host waits for " + name(event)); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream& where) const override {
    log("memory is kept for use " + on(where));
  }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, at::kMeta, id); }
  static std::string on(const c10::Stream& where) { return where.id() == beside ? "beside" : "computing"; }
  static std::string name(void* event) { return *static_cast<std::string*>(event); }

  mutable Log log_;
  mutable std::deque<std::string> names_;
  mutable c10::StreamId current_ = computing;
};

const LoggingDevice device{};

std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction& function) {
  if (std::string_view(function.name()) == "aten::copy_") device.log_copy();
  return nullptr;
}

// While a test of this fixture runs, the "meta" device has streams, and their operations are logged.
class LoggedBatchCopies : public testing::Test {
 protected:
  LoggedBatchCopies()
      : observer_(at::addThreadLocalCallback(at::RecordFunctionCallback(observe).scopes({at::RecordScope::FUNCTION}))) {
    before_ = slot().exchange(&device);
    device.begin();
  }
  ~LoggedBatchCopies() override {
    at::removeCallback(observer_);
    slot().store(before_);
  }

 private:
  static std::atomic<const c10::impl::DeviceGuardImplInterface*>& slot() {
    return c10::impl::device_guard_impl_registry[static_cast<size_t>(at::kMeta)];
  }
  at::CallbackHandle observer_;
  const c10::impl::DeviceGuardImplInterface* before_ = nullptr;
};

Tensors rows() { return {at::ones({3, 5}), at::Tensor(), at::arange(3)}; }

TEST_F(LoggedBatchCopies, ToTheDeviceRunOnASideStreamThatTheComputeStreamWaitsFor) {
  BatchCopies copies(at::kMeta, at::kFloat);
  const Tensors there = copies.to_device(rows());
  EXPECT_TRUE(there[0].is_meta() && there[2].is_meta());
  EXPECT_EQ(device.take(), (Log{"copy beside", "event 1 beside", "wait for event 1 computing", "event 2 computing",
                                "memory is kept for use computing"}));
}

TEST_F(LoggedBatchCopies, WaitForTheOldestCopyBeforeItsPinnedMemoryIsReused) {
  BatchCopies copies(at::kMeta, at::kFloat);
  Log first;
  for (int call = 1; call <= 8; ++call) {
    copies.upload(rows());
    const Log log = device.take();
    if (call == 1) first = log;
    EXPECT_EQ(log.size(), 5U) << "no wait expected";
  }
  copies.upload(rows());
  const auto event = [&](size_t log) { return first.at(log).substr(0, first.at(log).rfind(' ')); };
  const std::string copied = event(1), asked = event(3);
  Log again = {"the host waits for " + copied, "wait for " + asked + " beside"};
  again.insert(again.end(), first.begin(), first.end());
  EXPECT_EQ(device.take(), again);
}

TEST_F(LoggedBatchCopies, ReturnTensorsAlreadyOnTheDeviceWithoutCopying) {
  BatchCopies copies(at::kMeta, at::kFloat);
  const Tensors there = copies.to_device(rows());
  device.take();
  const Tensors again = copies.to_device(there);
  for (size_t i = 0; i < there.size(); ++i) EXPECT_TRUE(again[i].is_same(there[i])) << i;
  EXPECT_EQ(device.take(), Log{});
}

TEST_F(LoggedBatchCopies, FillTheInputsOfARecordedStepOnTheComputeStream) {
  const std::vector<Batch> host = {{at::ones({3, 5}), at::ones({3}), at::arange(3)}};
  PackedBatches packed(host, at::kMeta, at::kFloat);
  device.take();
  packed.load(host);
  EXPECT_EQ(device.take(), (Log{"copy beside", "event 1 beside", "wait for event 1 computing", "event 2 computing",
                                "memory is kept for use computing", "copy computing"}));
  const std::vector<Batch> there = {
      {host[0].input.to(at::kMeta), host[0].target.to(at::kMeta), host[0].ids.to(at::kMeta)}};
  device.take();
  packed.load(there);
  EXPECT_EQ(device.take(), (Log{"copy computing", "copy computing", "copy computing"}));
}

TEST(BatchCopies, ConvertOnlyFloatingPointTensorsToTheGivenDtype) {
  BatchCopies copies(at::kCPU, at::kDouble);
  for (int call = 0; call < 20; ++call) {
    const Tensors from = {at::full({call + 1, 5}, call), at::Tensor(), at::arange(call + 1), at::ones({5, 2}).t()};
    const Tensors there = copies.to_device(from);
    EXPECT_TRUE(at::equal(there[0], from[0].to(at::kDouble)));
    EXPECT_FALSE(there[1].defined());
    EXPECT_TRUE(at::equal(there[2], from[2]));
    EXPECT_TRUE(at::equal(there[3], from[3].to(at::kDouble)));
  }
}

TEST(BatchCopies, WritingToOneReturnedTensorDoesNotMakeAnotherInvalidForTheBackwardPass) {
  BatchCopies copies(at::kCPU, at::kFloat);
  const Tensors there = copies.to_device({at::ones({3, 5}), at::ones({3})});
  at::Tensor weight = at::ones({3, 5}).requires_grad_();
  const at::Tensor product = (weight * there[0]).sum();
  at::Tensor(there[1]).add_(1);
  EXPECT_NO_THROW(product.backward());
}

}  // namespace
}  // namespace dpbench
