// A stand-in for dpbench-worker without torch. It speaks the worker protocol and fails on request: --param fault=NAME
// and --param rank=N.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "harness/report/record/protocol.h"

namespace dpbench {
namespace {

constexpr char kCatalogue[] = R"({
 "torch": "2.11.0",
 "cuda": "13.0",
 "nccl": "2.28.9",
 "strategies": [
  {"name": "cpu", "summary": "one device", "parallelism": "single", "gradient": "gathered", "buffers": "first_replica",
   "cpu": true, "cuda": false, "params": [{"name": "fault", "default": "none", "summary": "how to fail"}]},
  {"name": "gpu", "summary": "one device", "parallelism": "single", "gradient": "gathered", "buffers": "first_replica",
   "cpu": false, "cuda": true, "params": []},
  {"name": "ddp", "summary": "ranks", "parallelism": "ranks", "gradient": "mean_of_means", "buffers": "rank0",
   "cpu": true, "cuda": true, "params": [{"name": "fault", "default": "none", "summary": "how to fail"},
                                         {"name": "rank", "default": "0", "summary": "which rank fails"}]}],
 "workloads": [
  {"name": "toy", "summary": "nothing is learnt", "scaling": "weak", "batch": 8, "probe": false},
  {"name": "strong-toy", "summary": "nothing is learnt", "scaling": "strong", "batch": 30, "probe": false, "digits": true,
   "samples": 100}],
 "backends": [{"name": "shm", "summary": "pretended", "cpu": true, "cuda": false, "shares_device": true, "threads": false,
   "cpu_preference": 20, "shares_memory": true}],
 "checks": [{"name": "gradient-vs-baseline", "summary": "pretended"}, {"name": "buffers", "summary": "pretended"}],
 "not_built": [{"kind": "backend", "name": "nccl", "reason": "this is a fake"}]})";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Starts a process in a session of its own, which the front (the dpbench process) does not know.
void leave_orphan() {
  if (::fork() != 0) return;
  ::setsid();
  if (::fork() == 0)
    while (true) ::pause();
  std::_Exit(0);
}

class Rank {
 public:
  Rank() : rank_(std::stoi(variable("RANK"))), fd_(std::stoi(variable("DPBENCH_FD"))) {
    const int page = ::open(variable("DPBENCH_PROGRESS").c_str(), O_RDWR);
    void* mapped = ::mmap(nullptr, sizeof(Progress) * (rank_ + 1), PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    progress_ = static_cast<Progress*>(mapped) + rank_;
  }

  int serve() {
    std::string line;
    while (read_line(line)) {
      const Json command = parse_json(line, "a command");
      if (command.at("do") == "quit") return ignores_quit_ ? forever() : 0;
      execute(command);
    }
    return 0;
  }

 private:
  bool read_line(std::string& line) {
    line.clear();
    for (char c; ::read(fd_, &c, 1) == 1;) {
      if (c == '\n') return true;
      line += c;
    }
    return false;
  }

  void send(const Json& message) { send_raw(message.dump() + "\n"); }
  void send_raw(const std::string& text) {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) std::exit(0);
  }

  void execute(const Json& command) {
    // With FAKE_OLD, acts like an older worker that does not support `dpbench duel`.
    if (command.at("do") == "block" && !variable("FAKE_OLD").empty())
      return fail(case_from_json(command.at("case")), "failure", "unknown command of the front: block");
    const CaseSpec spec = case_from_json(command.at("case"));
    const bool this_rank = !spec.params.contains("rank") ? rank_ == 0 : std::stoi(spec.params.at("rank")) == rank_;
    fault_ = spec.params.contains("fault") ? spec.params.at("fault") : "none";
    if (const std::string fault = variable("FAKE_FAULT"); !fault.empty() && !spec.baseline) fault_ = fault;
    if (fault_ == "init-hang" && this_rank) forever();
    if (fault_ == "init-exit" && this_rank) std::_Exit(9);
    if (!ready_sent_)
      send({{"event", "ready"},
            {"rank", rank_},
            {"pid", ::getpid()},
            {"versions", {{"cuda_loaded", "13.1"}, {"nccl_loaded", "2.28.10"}}}});
    ready_sent_ = true;
    step(3);
    // A case performs its fault only in its first block (a timed run of steps).
    const bool again = (command.at("do") == "block" || command.at("do") == "end") && current_ == spec.id;
    current_ = command.at("do") == "end" ? "" : spec.id;
    if (again) return answer(spec, command);
    if (this_rank)
      misbehave(spec);
    else if (fault_ == "echo")
      fail(spec, "failure", "Connection reset by peer");
    else if (fault_ != "none" && fault_ != "slow" && fault_ != "wrong" && fault_ != "untimed" && fault_ != "unequal" &&
             fault_ != "orphan" && fault_ != "deaf" && fault_ != "flaky" && fault_ != "bad-end" && fault_ != "talk")
      forever();
    answer(spec, command);
  }

  void step(int count) {
    for (int i = 0; i < count; ++i) progress_->step.fetch_add(1), progress_->beat.fetch_add(1);
  }

  [[noreturn]] int forever() {
    while (true) ::pause();
  }

  void fail(const CaseSpec& spec, const std::string& kind, const std::string& reason) {
    send({{"event", "failed"}, {"case", spec.id}, {"rank", rank_}, {"kind", kind}, {"reason", reason}});
    forever();
  }

  void misbehave(const CaseSpec& spec) {
    const std::map<std::string, std::function<void()>> faults = {
        {"kill",
         [] {
           std::cerr << "about \x1B[31mto\x1B[0m die\n" << std::flush;
           ::raise(SIGKILL);
         }},
        {"segv",
         [] {
           ::signal(SIGSEGV, SIG_DFL);  // the default action: otherwise a sanitizer would handle SIGSEGV
           ::raise(SIGSEGV);
         }},
        {"abort", [] { std::abort(); }},
        {"exit0", [] { std::_Exit(0); }},
        {"exit7", [] { std::_Exit(7); }},
        {"hang", [this] { forever(); }},
        {"stop", [] { ::raise(SIGSTOP); }},
        {"nonsense",
         [this] {
           send_raw("{\"event\": \"ran\", \x01\n");
           forever();
         }},
        {"other-case",
         [this] {
           send({{"event", "ran"}, {"case", "another"}});
           forever();
         }},
        {"flood",
         [this] {
           while (true) send_raw(std::string(1 << 16, 'x'));
         }},
        {"chatter",
         [] {
           while (true) std::fputs(std::string(1 << 16, 'y').c_str(), stderr);
         }},
        {"echo",
         [] {
           sleep_ms(100);
           ::raise(SIGKILL);
         }},
        {"nan", [this, &spec] { fail(spec, "nan", "gradient of n.1.weight"); }},
        {"oom", [this, &spec] { fail(spec, "oom", "asked for 3 GiB"); }},
        {"oom-above-20",
         [this, &spec] {
           if (spec.batch > 20) fail(spec, "oom", "asked for 3 GiB");
         }},
        {"exit7-above-20",
         [&spec] {
           if (spec.batch > 20) std::_Exit(7);
         }},
        {"usage", [this, &spec] { fail(spec, "usage", "fault 'usage' is no fault"); }},
        {"unavailable", [this, &spec] { fail(spec, "unavailable", "not on this machine"); }},
        {"slow",
         [this] {
           for (int i = 0; i < 15; ++i) sleep_ms(100), step(1);
         }},
        {"orphan", [] { leave_orphan(); }},
        {"orphan-hang", [this] { leave_orphan(), forever(); }},
        {"deaf",
         [this] {
           ::signal(SIGTERM, SIG_IGN);
           ignores_quit_ = true;
         }},
        {"deaf-hang", [this] { ::signal(SIGTERM, SIG_IGN), forever(); }},
        {"flaky",
         [] {
           const std::string mark = variable("DPBENCH_RUN_DIR") + "/fake-mark";
           if (!std::ifstream(mark)) {
             std::ofstream(mark) << 1;
             std::_Exit(4);
           }
         }},
        {"talk",
         [] { std::cout << "one\ntw" << std::flush, sleep_ms(150), std::cout << "o\nthe \x1B[31mrest" << std::flush; }},
        {"bad-end", [] { std::atexit([] { std::_Exit(5); }); }},
    };
    if (const auto fault = faults.find(fault_); fault != faults.end()) fault->second();
  }

  // Reports the results of two fake checks. Leaves out a check if its name does not contain the text of --filter.
  void send_checks(const CaseSpec& spec, const Json& command) {
    Json rows = Json::array();
    const std::string filter = command.at("filter");
    for (const std::string name : {"gradient-vs-baseline", "buffers"})
      if (rank_ == 0 && name.find(filter) != std::string::npos)
        rows.push_back(to_json(
            CheckRow{.name = name,
                     .status = fault_ == "wrong" && name == "buffers" ? CheckStatus::failed : CheckStatus::passed,
                     .compared = "a with b",
                     .error = 1e-9,
                     .bound = 1e-7,
                     .detail = "whole up to " + std::to_string(command.at("whole_worlds").get<int>()),
                     .likely = fault_ == "wrong" ? "not broadcast" : ""}));
    send({{"event", "checked"}, {"case", spec.id}, {"checks", rows}});
  }

  void answer(const CaseSpec& spec, const Json& command) {
    if (command.at("do") == "check") return send_checks(spec, command);
    RankRecord record;
    record.steps_per_sample = 10;
    if (command.at("do") == "block")
      record.samples_ns.push_back(std::llround(fake_slowdown(spec) * 10 * 1000000 * (spec.world + 1) / 2));
    record.parameters_hash = fault_ == "unequal" ? std::to_string(rank_) : "same";
    record.first_loss = record.last_loss = 1;
    record.step_tensor_bytes = 1 << 20;
    Json checks = Json::array();
    const bool check = command.value("check", false), untimed = fault_ == "untimed" || (check && fault_ == "wrong");
    if (rank_ == 0 && check)
      checks.push_back(to_json(CheckRow{.name = "gradient-vs-baseline",
                                        .status = fault_ == "wrong" ? CheckStatus::failed : CheckStatus::passed,
                                        .compared = "a with b"}));
    if (untimed) record = RankRecord();
    record.rank = rank_;
    send({{"event", "ran"}, {"case", spec.id}, {"record", to_json(record)}, {"checks", checks}, {"untimed", untimed}});
  }

  // Returns the factor on this case's step time: FAKE_FACTOR (1 for the baseline), times lognormal noise with standard
  // deviation FAKE_NOISE.
  double fake_slowdown(const CaseSpec& spec) {
    const std::string factor = spec.baseline ? "" : variable("FAKE_FACTOR"), noise = variable("FAKE_NOISE");
    const double spread = noise.empty() ? 0 : std::stod(noise) * normal_(random_);
    return (factor.empty() ? 1 : std::stod(factor)) * std::exp(spread);
  }

  std::mt19937_64 random_{static_cast<uint64_t>(::getpid())};
  std::normal_distribution<double> normal_;
  int rank_, fd_;
  Progress* progress_ = nullptr;
  bool ready_sent_ = false, ignores_quit_ = false;
  std::string fault_, current_;  // current_: the case that is being timed; empty: none
};

}  // namespace
}  // namespace dpbench

int main(int count, char** words) {
  if (count > 1 && std::string(words[1]) == "--catalogue") {
    if (count > 3 && std::string(words[3]).find("broken") != std::string::npos)
      return std::fputs("cannot load it\n", stderr), 1;
    dpbench::Json catalogue = dpbench::parse_json(dpbench::kCatalogue, "the catalogue");
    if (std::string(words[count - 1]) == "--no-cuda") catalogue["not_built"] = dpbench::Json::array();
    std::puts(catalogue.dump(1).c_str());
    return 0;
  }
  if (count > 1 && std::string(words[1]) == "--refusals") {
    dpbench::Json reasons = dpbench::Json::array();
    for (int i = 2; i < count && words[i][0] == '{'; ++i)
      reasons.push_back(std::string(words[i]).find("contradiction") == std::string::npos
                            ? dpbench::Json(nullptr)
                            : dpbench::Json("fault=contradiction contradicts the other values"));
    std::puts(reasons.dump().c_str());
    return 0;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return dpbench::Rank().serve();
}
