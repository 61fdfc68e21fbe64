#include "harness/front/launch/outside/agent.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "harness/front/launch/outside/error_file.h"
#include "harness/front/launch/outside/launched_group.h"
#include "harness/front/launch/outside/rank_state.h"
#include "harness/front/launch/worker_program.h"
#include "harness/front/plan/machine.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/environment.h"
#include "harness/report/machine/gpu_survey.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int tick_milliseconds = 100;
constexpr double state_every_seconds = 0.3;
constexpr size_t max_message_bytes = 4u << 20;  // limit on one message; c10d's store accepts 8 MiB

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Returns the selection of cases from this process's own command line, after checking the plug-ins that it names. The
// agent never loads plug-ins named in a message from the network.
Selection own_selection(Selection what, const std::string& worker) {
  settle_plugins(what, worker);
  return what;
}

class Agent : public RankEvents {
 public:
  Agent(const MeasuringOptions& options, const Placement& placement)
      : placement_(placement),
        worker_(find_worker()),
        plugins_(own_selection(options.what, worker_).plugins),
        python_(find_python_host(worker_, plugins_, options.what.python)),
        relay_(worker_, placement, options.timeout_s),
        parent_(::getppid()),
        last_heard_(monotonic_seconds()),
        silence_limit_(options.timeout_s + silent_seconds) {}

  int run() {
    try {
      return serve();
    } catch (const std::exception& error) {
      send_to_rank0({{"gone", error.what()}});
      throw;
    }
  }

  void on_line(int, const std::string& line, double) override {
    if (line.size() > max_message_bytes) return send_for_group("offence", "sent a line of more than 4 MiB");
    report_failure(line);
    send_for_group("line", line);
  }
  void on_offence(int, const std::string& offence, double) override { send_for_group("offence", offence); }
  void on_death(int, int wait_status, double, const std::string& why) override {
    send_for_group("words", group_->log_tail(placement_.rank));
    send_to_rank0({{"group", group_name_}, {"death", wait_status}, {"why", why}, {"state", to_json(state_)}});
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)
      write_error_file("its worker ended with " + describe_exit(wait_status));
  }
  void on_states(const std::vector<RankState>& states, double now) override {
    state_ = states[0];
    if (state_ == sent_state_ || now - state_sent_at_ < state_every_seconds) return;
    send_for_group("state", to_json(state_));
    sent_state_ = state_;
    state_sent_at_ = now;
  }

 private:
  int serve() {
    send_to_rank0({{"hello", hello_of(placement_, scratch_.path())}});
    while (!over_) {
      if (const int signal = wait_one_tick()) return stop_on_signal(signal);
      for (const Json& message : relay_.receive()) handle(message);
      exchange_heartbeats();
    }
    send_to_rank0({{"bye", true}});
    return code_;
  }

  // Waits for events for at most 100 ms. Returns the signal that this process must end with: SIGHUP if the launcher is
  // gone, 0 to continue.
  int wait_one_tick() {
    bool signalled = false;
    if (group_) {
      signalled = group_->wait(*this, signals_, tick_milliseconds, relay_.descriptor());
    } else {
      pollfd polled[] = {{signals_.descriptor(), POLLIN, 0}, {relay_.descriptor(), POLLIN, 0}};
      ::poll(polled, 2, tick_milliseconds);
      signalled = polled[0].revents != 0;
    }
    if (signalled)
      if (const int signal = signals_.take()) return signal;
    return ::getppid() == parent_ ? 0 : SIGHUP;
  }

  int stop_on_signal(int signal) {
    if (group_) group_->kill(signals_);
    send_to_rank0({{"signal", signal}});
    return 128 + signal;
  }

  void handle(const Json& message) {
    last_heard_ = monotonic_seconds();
    silence_limit_ = silent_seconds;
    const auto order = parse_name<AgentOrder>(message.at("do").get<std::string>());
    if (order == AgentOrder::open) open(message);
    if (order == AgentOrder::end) {
      over_ = true;
      code_ = message.at("code");
    }
    if (!group_ || message.value("group", "") != group_->spec().name) return;
    if (order == AgentOrder::tell) group_->send(message.at("message"));
    if (order == AgentOrder::quit) close(group_->quit(signals_));
    if (order == AgentOrder::kill) {
      group_->kill(signals_);
      close({});
    }
  }

  void open(const Json& message) {
    group_.reset();
    const Json& group = message.at("spec");
    const GroupSpec spec{process_settings_from_json(group, "spec"), group.at("name")};
    const WorkerSettings settings{.program = worker_,
                                  .python = python_,
                                  .plugins = plugins_,
                                  .cpus = cores_to_share(),
                                  .timeout_s = message.at("timeout_s"),
                                  .logs = scratch_.path() / "logs",
                                  .output = [](const std::string& line) { std::cerr << sanitised(line + "\n"); }};
    group_name_ = spec.name;
    state_ = sent_state_ = {};
    const std::string directory = message.at("directory");
    if (!Scratch::is_private(directory))
      throw std::runtime_error("rank 0 named '" + one_line(directory, 200) + "', not a private directory of a run");
    group_ = std::make_unique<WorkerGroup>(spec, settings, scratch_, seat_of(placement_, directory));
  }

  void close(const std::vector<std::string>& complaints) {
    send_for_group("closed", complaints);
    group_.reset();
    scratch_.forget_group(group_name_);
  }

  void exchange_heartbeats() {
    const double now = monotonic_seconds();
    if (now - alive_sent_at_ >= alive_every_seconds) {
      send_to_rank0({{"alive", true}});
      alive_sent_at_ = now;
    }
    if (now - last_heard_ > silence_limit_)
      throw std::runtime_error("rank 0 at " + placement_.master_addr + " has sent nothing for " +
                               std::to_string(static_cast<int>(silence_limit_)) + " s");
  }

  static void report_failure(const std::string& line) {
    if (line.find("\"failed\"") == std::string::npos) return;
    const Json event = parse_json(line, "message of a rank");
    const Json failure = event.value("event", "") == name_of(Event::failed) ? event : event.value("failed", Json());
    if (failure.contains("reason")) write_error_file(failure.at("reason"));
  }

  void send_for_group(const std::string& what, Json value) {
    send_to_rank0({{"group", group_name_}, {what, std::move(value)}});
  }
  void send_to_rank0(Json message) {
    message["rank"] = placement_.rank;
    relay_.send(0, message);
  }

  Placement placement_;
  std::string worker_;
  std::vector<std::string> plugins_;
  PythonHost python_;
  const Scratch scratch_;
  const Signals signals_;
  RelayProcess relay_;
  std::unique_ptr<WorkerGroup> group_;
  std::string group_name_;
  pid_t parent_;
  double last_heard_, silence_limit_, alive_sent_at_ = 0, state_sent_at_ = 0;
  RankState state_, sent_state_;
  bool over_ = false;
  int code_ = 0;
};

}  // namespace

int run_agent(const MeasuringOptions& options, const Placement& placement) {
  const std::string who = "rank " + std::to_string(placement.rank) + " on " + host_name() + ": ";
  try {
    return Agent(options, placement).run();
  } catch (const UsageError& error) {
    throw UsageError(who + error.what());
  } catch (const std::exception& error) {
    write_error_file(error.what());
    throw std::runtime_error(who + error.what());
  }
}

// The host name alone is not unique: tests run two nodes on one machine. Adding the launcher's node name and the
// network namespace distinguishes them.
std::string node_of(const Placement& placement) {
  std::error_code ignored;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  return host_name() + " " + network + " " + placement.node;
}

std::vector<int> cores_to_share() {
  const Machine machine = detect_machine({}, "");
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return static_cast<long>(machine.cpus.size()) < online ? std::vector<int>{} : machine.cpus;
}

Json hello_of(const Placement& placement, const std::string& directory) {
  const GpuSurvey gpus = survey_gpus();
  const auto env = read_env(environment(this_machine(), gpus.accelerators, {}));
  LaunchedHost facts{.name = host_name(),
                     .fingerprint = env.fingerprint,
                     .cpu = env.cpu.model,
                     .cores = static_cast<int64_t>(::sysconf(_SC_NPROCESSORS_ONLN)),
                     .memory_bytes = env.memory.total_bytes};
  for (const GpuState& gpu : gpus.accelerators.gpus) facts.gpus.push_back(gpu.name);
  return {{"node", node_of(placement)},
          {"local_rank", placement.local_rank},
          {"directory", directory},
          {"facts", to_json(facts)}};
}

}  // namespace dpbench
