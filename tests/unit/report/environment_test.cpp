#include "harness/report/machine/environment.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "harness/report/machine/host_files.h"
#include "harness/report/machine/other_load.h"
#include "harness/report/machine/tool.h"
#include "tests/support/contains.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

// A fake file tree with the /proc, /sys and /etc of a machine with known properties.
class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dpbench-env-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    sources_ = {.root = name, .affinity = {0, 1, 2, 5}, .variables = {{"OMP_NUM_THREADS", "1"}, {"NCCL_ALGO", "Ring"}}};
    write("proc/cpuinfo",
          "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
          "model name\t: Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz\nstepping\t: 8\nmicrocode\t: 0x2b\n"
          "flags\t\t: fpu avx avx2 hypervisor amx_tile\n\nprocessor\t: 1\nmodel name\t: other\n");
    write("proc/meminfo", "MemTotal:       1024 kB\nMemFree:   1 kB\nMemAvailable:    512 kB\nSwapTotal: 0 kB\n");
    write("proc/loadavg", "0.50 0.25 0.10 1/99 123\n");
    write("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    write("etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    write("sys/devices/system/cpu/online", "0-7\n");
    write("sys/devices/system/cpu/smt/active", "1\n");
    write("sys/devices/system/node/online", "0-1\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0,4\n");
    write("sys/fs/cgroup/cpu.max", "max 100000\n");
    write("sys/fs/cgroup/memory.max", "max\n");
  }
  void TearDown() override { fs::remove_all(sources_.root); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((sources_.root / file).parent_path());
    std::ofstream(sources_.root / file) << text;
  }
  Json env() const { return environment(sources_, gpus_, {.torch = "2.11.0", .cuda = "", .nccl = ""}); }

  Sources sources_;
  Accelerators gpus_;
};

TEST_F(Environment, ReadsModelCoresCachesAndClockOfTheProcessor) {
  const Json cpu = env()["cpu"];
  EXPECT_EQ(cpu["model"], "Intel(R) Xeon(R) Platinum 8480C CPU @ 2.00GHz");
  EXPECT_EQ(cpu["family_model_stepping"], "6/143/8");
  EXPECT_EQ(cpu["online"], 8);
  EXPECT_EQ(cpu["usable"], 4);
  EXPECT_EQ(cpu["affinity"], "0-2,5");
  EXPECT_EQ(cpu["smt"], true);
  EXPECT_EQ(cpu["numa_nodes"], 2);
  EXPECT_EQ(cpu["governor"], "performance");
  EXPECT_EQ(cpu["max_mhz"], 3800);
  EXPECT_EQ(cpu["flags"], Json({"avx", "avx2", "amx_tile"}));
  EXPECT_EQ(cpu["caches"], Json::array({{{"level", 1}, {"type", "Data"}, {"bytes", 49152}, {"shared_by", 2}}}));
}

TEST_F(Environment, ReadsMemorySizesOperatingSystemAndLoad) {
  EXPECT_EQ(env()["memory"], Json({{"total_bytes", 1048576}, {"available_bytes", 524288}, {"swap_bytes", 0}}));
  EXPECT_EQ(env()["os"]["kernel"], "6.1.0-18-amd64");
  EXPECT_EQ(env()["os"]["distribution"], "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(env()["os"]["virtual"], true);
  EXPECT_TRUE(env()["os"]["container"].is_null());
  EXPECT_EQ(env()["load"]["minutes_1"], 0.5);
}

TEST_F(Environment, ReadsContainerLimitsOfCgroupV1AndV2) {
  EXPECT_EQ(env()["limits"], Json({{"cpus", nullptr}, {"memory_bytes", nullptr}}));
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/memory.max", "1073741824\n");
  write(".dockerenv", "");
  EXPECT_EQ(env()["limits"], Json({{"cpus", 1.5}, {"memory_bytes", 1073741824}}));
  EXPECT_EQ(env()["os"]["container"], "docker");
  fs::remove_all(sources_.root / "sys/fs/cgroup");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(env()["limits"], Json({{"cpus", 2.0}, {"memory_bytes", nullptr}}));
}

TEST_F(Environment, UnknownValuesAreNull) {
  const Json env = environment({.root = sources_.root / "nothing", .affinity = {0}, .variables = {}}, {}, {});
  EXPECT_TRUE(env["cpu"]["model"].is_null());
  EXPECT_TRUE(env["cpu"]["governor"].is_null());
  EXPECT_TRUE(env["memory"]["total_bytes"].is_null());
  EXPECT_TRUE(env["load"].is_null());
  EXPECT_TRUE(env["versions"]["torch"].is_null());
  EXPECT_EQ(env["fingerprint"].get<std::string>().size(), 8u);
}

TEST_F(Environment, RecordsOnlyEnvironmentVariablesOnItsList) {
  sources_.variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  sources_.variables["TORCH_HOME"] = "/home/somebody";
  EXPECT_EQ(env()["variables"], Json({{"NCCL_ALGO", "Ring"}, {"OMP_NUM_THREADS", "1"}}));
}

TEST_F(Environment, TheFingerprintChangesWithPropertiesThatAffectSpeed) {
  const std::string before = fingerprint(env());
  const auto changed_by = [&](auto change) {
    const Sources sources = sources_;
    const Accelerators gpus = gpus_;
    change();
    const bool changed = fingerprint(env()) != before;
    sources_ = sources, gpus_ = gpus;
    return changed;
  };
  EXPECT_FALSE(changed_by([] {}));
  EXPECT_TRUE(changed_by([&] { sources_.affinity = {0, 1}; }));
  EXPECT_TRUE(changed_by([&] { sources_.variables["OMP_NUM_THREADS"] = "2"; }));
  EXPECT_TRUE(changed_by([&] { gpus_.gpus = {{.name = "NVIDIA H200"}}; }));
  EXPECT_TRUE(changed_by([&] { gpus_.driver = "580.1"; }));
  EXPECT_FALSE(changed_by([&] { sources_.affinity = {4, 5, 6, 7}; })) << "other cores, same number";
  write("proc/loadavg", "9.00 9.00 9.00 1/99 123\n");
  write("proc/meminfo", "MemAvailable: 1 kB\n");
  EXPECT_EQ(fingerprint(env()), before) << "load and free memory vary";
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  EXPECT_NE(fingerprint(env()), before);
}

TEST_F(Environment, TheFingerprintIgnoresGpuTemperatureAndClocks) {
  gpus_.gpus = {{.name = "NVIDIA H200", .memory_bytes = 150, .temperature_c = 30, .power_limit_w = 700}};
  const std::string before = fingerprint(env());
  gpus_.gpus[0].temperature_c = 80;
  gpus_.gpus[0].sm_clock_mhz = 345;
  EXPECT_EQ(fingerprint(env()), before);
  gpus_.gpus[0].power_limit_w = 500;
  EXPECT_NE(fingerprint(env()), before);
}

TEST_F(Environment, TheMachineLabelHasDeviceCountModelAndFingerprint) {
  EXPECT_EQ(machine_label(env()), "4xIntel-Xeon-Platinum-8480C-" + fingerprint(env()).substr(0, 4));
  gpus_.gpus = {{.name = "NVIDIA H200"}, {.name = "NVIDIA H200"}};
  EXPECT_EQ(machine_label(env()), "2xH200-" + fingerprint(env()).substr(0, 4));
  const Json bare = environment({.root = "/nothing", .affinity = {0}, .variables = {}}, {}, {});
  EXPECT_TRUE(machine_label(bare).starts_with("1xcpu-"));
}

TEST_F(Environment, WarnsAboutGovernorLoadCpuLimitAndThrottledGpu) {
  EXPECT_TRUE(environment_warnings(env()).empty());
  EXPECT_EQ(load_warning(env()), "");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  write("proc/loadavg", "3.00 1.00 1.00 1/99 123\n");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  gpus_.gpus = {{.name = "NVIDIA H200", .throttled = true}};
  const auto warnings = environment_warnings(env());
  ASSERT_EQ(warnings.size(), 4u);
  expect_contains(warnings[0], {"powersave"});
  expect_contains(warnings[1], {"3.0", "4 cores"});
  EXPECT_EQ(warnings[1], load_warning(env()));
  expect_contains(warnings[2], {"1.5", "4 cores"});
  expect_contains(warnings[3], {"H200"});
}

TEST_F(Environment, WarnsAboutHostsThatDifferFromTheFirst) {
  const auto host = [](const char* name, const char* fingerprint, int cores, const char* gpu) {
    return Json{{"name", name}, {"fingerprint", fingerprint}, {"cpu", "EPYC"}, {"cores", cores}, {"gpus", {gpu}}};
  };
  Json with_hosts = env();
  with_hosts["hosts"] = {host("a", "f", 4, "H100"), host("b", "f", 4, "H100")};
  EXPECT_TRUE(environment_warnings(with_hosts).empty());
  with_hosts["hosts"] = {host("a", "f", 4, "H100"), host("b", "g", 8, "H200"), host("c", "h", 4, "H100")};
  const auto warnings = environment_warnings(with_hosts);
  ASSERT_EQ(warnings.size(), 2u);
  expect_contains(warnings[0], {"a and b", "cores 4 and 8", "gpus [\"H100\"] and [\"H200\"]"});
  expect_contains(warnings[1], {"a and c"});
  EXPECT_EQ(warnings[1].find("cores"), std::string::npos) << warnings[1];
}

TEST_F(Environment, OfThisMachineHasCoresAndMemory) {
  const Json env = environment(this_machine(), {}, {});
  EXPECT_GE(env["cpu"]["usable"].get<int>(), 1);
  EXPECT_GT(env["memory"]["total_bytes"].get<int64_t>(), 1 << 20);
}

TEST(Tool, SectionOfAReportRecordsVersionCommitAndArgumentsOfDpbench) {
  const Json tool = tool_block({"dpbench", "--quick"});
  EXPECT_EQ(tool["argv"], Json({"dpbench", "--quick"}));
  EXPECT_EQ(tool["version"], version());
  EXPECT_FALSE(tool["compiler"].get<std::string>().empty());
  EXPECT_FALSE(run_commit(tool).empty());
  EXPECT_EQ(run_commit({{"commit", "aaa"}, {"directory_commit", nullptr}}), "aaa");
  EXPECT_EQ(run_commit({{"commit", "aaa"}, {"directory_commit", "bbb-dirty"}}), "bbb-dirty");
}

TEST(HostFiles, RangesOfCpuNumbersAreFormattedAndCounted) {
  EXPECT_EQ(ranges_of({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(ranges_of({}), "");
  EXPECT_EQ(count_of_ranges("0-2,5,7-8"), 6);
  EXPECT_EQ(count_of_ranges(""), 0);
}

// A fake /proc in which process 10 is the front (the dpbench process), 11 a rank and 12 the child of that rank. Process
// 13 is another program. The names of processes 11 and 13 contain text that looks like further fields of
// /proc/PID/stat. A second has 100 clock ticks.
class ProcStat : public Environment {
 protected:
  void process(int pid, const std::string& name, int parent, int own, int of_ended_children) {
    write("proc/" + std::to_string(pid) + "/stat", std::to_string(pid) + " (" + name + ") S " + std::to_string(parent) +
                                                       " 1 1 0 -1 4194560 9 9 9 9 " + std::to_string(own) + " 0 " +
                                                       std::to_string(of_ended_children) + " 0 20 0 1 0 5 6 7\n");
  }
  std::optional<CpuTimes> times(double wall_s) const { return cpu_times(10, {0, 1}, wall_s, sources_.root); }
};

TEST_F(ProcStat, ReadsBusyStolenAndOwnCpuTime) {
  write(
      "proc/stat",
      "cpu 9 9 9 9 9 9 9 9\ncpu0 1000 100 200 5000 50 30 20 10 7 7\ncpu1 500 0 100 5000 50 0 0 40 0 0\ncpu2 9999 0 0 0 "
      "0 0 0 0 0 0\n");
  process(10, "dpbench", 1, 50, 100);
  process(11, "worker) R 1 1", 10, 300, 0);
  process(12, "child", 11, 25, 0);
  process(13, "x) S 10 1", 1, 700, 0);
  const auto found = times(5);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->busy_s, 19.5) << "only the two cores we may use";
  EXPECT_DOUBLE_EQ(found->stolen_s, 0.5);
  EXPECT_DOUBLE_EQ(found->ours_s, 4.75);
  EXPECT_FALSE(cpu_times(99, {0, 1}, 5, sources_.root)) << "no such process";
}

TEST_F(ProcStat, CpuTimeOfThisProcessIsPartOfTheBusyTimeOfTheMachine) {
  const auto found = cpu_times(::getpid(), this_machine().affinity, 0);
  ASSERT_TRUE(found);
  EXPECT_GE(found->busy_s + 1, found->ours_s);
}

TEST(OtherLoad, IsTheMeanNumberOfCoresThatOtherProgramsUsedOrAVirtualMachinesHostWithheld) {
  const CpuTimes before{.wall_s = 7, .busy_s = 3, .stolen_s = 1, .ours_s = 2};
  const CpuTimes after{.wall_s = 9, .busy_s = 7, .stolen_s = 2, .ours_s = 4};
  const auto load = load_between(before, after);
  ASSERT_TRUE(load);
  EXPECT_DOUBLE_EQ(load->programs, 1) << "4 of 4 core seconds were busy, 2 of them ours";
  EXPECT_DOUBLE_EQ(load->host, 0.5);
}

TEST(OtherLoad, IsUnknownIfTheTimeIsTooShortForTheKernelsClocks) {
  EXPECT_FALSE(load_between({}, {.wall_s = 0.1, .busy_s = 0.2}));
}

}  // namespace
}  // namespace dpbench
