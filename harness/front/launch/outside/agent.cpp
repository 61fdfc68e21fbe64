#include "harness/front/launch/outside/agent.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
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
#include "harness/report/record/codec.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr int tick_milliseconds = 100;
constexpr double state_every_seconds = 0.3;
constexpr size_t longest_message = 4u << 20;  // c10d's store takes 8 MiB

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

// Never those that a message names: what comes over the network is not loaded.
std::vector<std::string> own_plugins(const MeasuringOptions& options) {
  std::vector<std::string> files;
  for (const auto& plugin : options.what.plugins) files.push_back(checked_plugin(plugin));
  return files;
}

class Agent : public RankEvents {
 public:
  Agent(const MeasuringOptions& options, const Placement& placement)
      : placement_(placement),
        worker_(find_worker()),
        plugins_(own_plugins(options)),
        relay_(worker_, placement, options.timeout_s),
        parent_(::getppid()),
        heard_(monotonic_seconds()),
        patience_(options.timeout_s + silent_seconds) {}

  int run() {
    try {
      return serve();
    } catch (const std::exception& error) {
      say({{"gone", error.what()}});
      throw;
    }
  }

  void on_line(int, const std::string& line, double) override {
    if (line.size() > longest_message) return about("offence", "sent a line of more than 4 MiB");
    note_failure(line);
    about("line", line);
  }
  void on_offence(int, const std::string& what, double) override { about("offence", what); }
  void on_death(int, int wait_status, double, const std::string& why) override {
    about("words", group_->last_words(placement_.rank));
    say({{"group", group_name_}, {"death", wait_status}, {"why", why}});
    if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)
      write_error_file("its worker was ended by " + ending(wait_status));
  }
  void on_states(const std::vector<RankState>& states, double now) override {
    const RankState& state = states[0];
    if (state == told_ || now - told_at_ < state_every_seconds) return;
    about("state", to_json(state));
    told_ = state;
    told_at_ = now;
  }

 private:
  int serve() {
    say({{"hello", hello_of(placement_, scratch_.path())}});
    while (!over_) {
      if (const int signal = wait_a_little()) return end_by(signal);
      for (const Json& message : relay_.receive()) obey(message);
      keep_in_touch();
    }
    say({{"bye", true}});
    return code_;
  }

  // The signal that ends us, 0 if none has come. A launcher that is gone, however it went, is one too.
  int wait_a_little() {
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

  int end_by(int signal) {
    if (group_) group_->kill(signals_);
    say({{"signal", signal}});
    return 128 + signal;
  }

  void obey(const Json& message) {
    heard_ = monotonic_seconds();
    patience_ = silent_seconds;
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
    const GroupSpec spec{.name = group.at("name"),
                         .backend = group.at("backend"),
                         .device = read_value<Device>(group.at("device"), "device"),
                         .processes = group.at("processes"),
                         .threads = group.at("threads")};
    const WorkerSettings settings{.program = worker_,
                                  .plugins = plugins_,
                                  .cpus = cores_to_share(),
                                  .timeout_s = message.at("timeout_s"),
                                  .logs = scratch_.path() / "logs"};
    group_name_ = spec.name;
    told_ = {};
    const std::string directory = message.at("directory");
    if (!Scratch::is_private(directory))
      throw std::runtime_error("rank 0 named '" + one_line(directory, 200) + "', which is no run's private directory");
    group_ = std::make_unique<WorkerGroup>(spec, settings, scratch_, seat_of(placement_, directory));
  }

  void close(const std::vector<std::string>& complaints) {
    about("closed", complaints);
    group_.reset();
    scratch_.forget_group(group_name_);
  }

  void keep_in_touch() {
    const double now = monotonic_seconds();
    if (now - said_alive_ >= alive_every_seconds) {
      say({{"alive", true}});
      said_alive_ = now;
    }
    if (now - heard_ > patience_)
      throw std::runtime_error("rank 0 at " + placement_.master_addr + " has not been heard of for " +
                               std::to_string(static_cast<int>(patience_)) + " s");
  }

  static void note_failure(const std::string& line) {
    if (line.find("\"failed\"") == std::string::npos) return;
    const Json event = parse_json(line, "what a rank sent");
    const Json failure = event.value("event", "") == name_of(Event::failed) ? event : event.value("failed", Json());
    if (failure.contains("reason")) write_error_file(failure.at("reason"));
  }

  void about(const std::string& what, Json value) { say({{"group", group_name_}, {what, std::move(value)}}); }
  void say(Json message) {
    message["rank"] = placement_.rank;
    relay_.send(0, message);
  }

  Placement placement_;
  std::string worker_;
  std::vector<std::string> plugins_;
  const Scratch scratch_;
  const Signals signals_;
  RelayProcess relay_;
  std::unique_ptr<WorkerGroup> group_;
  std::string group_name_;
  pid_t parent_;
  double heard_, patience_, said_alive_ = 0, told_at_ = 0;
  RankState told_;
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

// Two nodes of a test may be one machine: the launcher's name for them, or their networks, tell them apart.
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
