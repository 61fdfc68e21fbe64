#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "harness/report/machine/gpu_survey.h"
#include "harness/report/machine/gpu_watch.h"

namespace dpbench {
namespace {

// The run path (RPATH) of this program selects the fake NVML library of tests/fakes. FAKE_NVML sets its mode.
class NvmlOfAFakeDriver : public ::testing::Test {
 protected:
  void TearDown() override { unsetenv("FAKE_NVML"); }
  static GpuSurvey survey(const char* mode = "") {
    setenv("FAKE_NVML", mode, 1);
    return survey_gpus();
  }
};

using Links = std::vector<std::vector<std::string>>;

TEST_F(NvmlOfAFakeDriver, SurveyReportsEveryGpu) {
  const GpuSurvey found = survey();
  ASSERT_EQ(found.accelerators.gpus.size(), 3u) << found.why_none;
  EXPECT_EQ(found.accelerators.driver, "580.65.06");
  EXPECT_EQ(found.accelerators.cuda_driver, "13.0");
  const GpuState& gpu = found.accelerators.gpus[1];
  EXPECT_EQ(gpu.name, "NVIDIA Pretended");
  EXPECT_EQ(gpu.uuid, "GPU-1");
  EXPECT_EQ(gpu.pci_bus, "00000000:1C:00.0");
  EXPECT_EQ(gpu.memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(gpu.max_sm_clock_mhz, 1980);
  EXPECT_EQ(gpu.power_limit_w, 700);
  EXPECT_EQ(gpu.temperature_c, 61);
  EXPECT_EQ(gpu.pcie_generation, 5);
  EXPECT_EQ(gpu.pcie_lanes, 16);
  EXPECT_EQ(gpu.ecc, true);
  EXPECT_EQ(gpu.mig, std::nullopt) << "unsupported means unknown";
}

TEST_F(NvmlOfAFakeDriver, CountsTheNvlinksBetweenTwoGpus) {
  EXPECT_EQ(survey().accelerators.links, (Links{{"X", "NV4", "SYS"}, {"NV4", "X", "SYS"}, {"SYS", "SYS", "X"}}));
}

TEST_F(NvmlOfAFakeDriver, CountsNvlinksThatGoThroughNvswitches) {
  EXPECT_EQ(survey("switch").accelerators.links,
            (Links{{"X", "NV18", "NV18"}, {"NV18", "X", "NV18"}, {"NV18", "NV18", "X"}}));
}

TEST_F(NvmlOfAFakeDriver, ReportsPcieTopologyWithoutNvlinks) {
  const GpuSurvey found = survey("bare");
  EXPECT_EQ(found.accelerators.links, (Links{{"X", "PIX", "SYS"}, {"PIX", "X", "SYS"}, {"SYS", "SYS", "X"}}));
  EXPECT_EQ(found.accelerators.gpus[0].sm_clock_mhz, std::nullopt);
}

// In the fake library, each reading adds 50 J of energy and 1 W of power, the SM clock alternates between 1980 and 1200
// MHz, and two of four readings are throttled.
TEST_F(NvmlOfAFakeDriver, ReadsPowerClocksAndThrottleReasonsAfterEachBlock) {
  GpuWatch watch({"0000:1b:00.0", "0000:99:00.0"});  // bus numbers of GPUs as CUDA writes them
  for (int block = 0; block < 4; ++block) {
    watch.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    watch.read();
  }
  ASSERT_EQ(watch.counters().size(), 1u) << "there is no GPU at the other bus";
  const GpuCounters counters = watch.counters()[0];
  EXPECT_EQ(counters.pci_bus, "00000000:1B:00.0");
  EXPECT_EQ(counters.readings, 4);
  EXPECT_GT(*counters.mean_power_w, 0);
  EXPECT_LE(*counters.mean_power_w, 200 / 0.1) << "200 J in 0.1 s or more";
  EXPECT_DOUBLE_EQ(*counters.most_power_w, 303);
  EXPECT_DOUBLE_EQ(*counters.mean_sm_clock_mhz, 1590);
  EXPECT_EQ(counters.least_sm_clock_mhz, 1200);
  EXPECT_EQ(counters.least_memory_clock_mhz, 2619);
  EXPECT_EQ(counters.most_temperature_c, 61);
  EXPECT_EQ(counters.throttled_readings, 2);
  EXPECT_EQ(counters.throttle_reasons,
            (std::vector<std::string>{"sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown"}));
}

TEST_F(NvmlOfAFakeDriver, ValuesThatTheDriverDoesNotReportAreUnknown) {
  setenv("FAKE_NVML", "bare", 1);
  GpuWatch watch({"00000000:1B:00.0"});
  watch.start();
  watch.read();
  const GpuCounters counters = watch.counters().at(0);
  EXPECT_EQ(counters.readings, 1);
  EXPECT_EQ(counters.mean_power_w, std::nullopt);
  EXPECT_EQ(counters.least_sm_clock_mhz, std::nullopt);
}

TEST_F(NvmlOfAFakeDriver, GpuCountersAreEmptyWithoutGpus) { EXPECT_TRUE(GpuWatch({}).counters().empty()); }

}  // namespace
}  // namespace dpbench
