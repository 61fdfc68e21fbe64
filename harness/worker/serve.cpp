#include "harness/worker/serve.h"

#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Parallel.h>
#include <unistd.h>

#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/exception_text.h"
#include "harness/conform/suite.h"
#include "harness/report/record/report.h"
#include "harness/report/text/first_line.h"
#include "harness/worker/catalogue_json.h"
#include "harness/worker/check/check_case.h"
#include "harness/worker/measure/timed_case.h"
#include "harness/worker/rank/channel.h"
#include "harness/worker/rank/cuda.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/host_memory.h"
#include "harness/worker/rank/plugins.h"
#include "harness/worker/rank/pulse.h"
#include "harness/worker/train/train.h"
#include "workloads/base/vector_math.h"
#include "workloads/data/safetensors_file.h"

namespace dpbench {
namespace {

// Converts the exception being handled to the "failed" message of the protocol.
Json failure_event(const std::string& case_id, int rank, const std::string& place) {
  const auto event = [&](FailureKind kind, const std::string& reason) -> Json {
    return {{"event", name_of(Event::failed)},
            {"case", case_id},
            {"rank", rank},
            {"kind", name_of(kind)},
            {"reason", reason}};
  };
  try {
    throw;
  } catch (const UsageError& error) {
    return event(FailureKind::usage, error.what());
  } catch (const Unavailable& error) {
    return event(FailureKind::unavailable, error.what());
  } catch (const std::domain_error& error) {
    return event(FailureKind::nan, error.what());
  } catch (const OutOfHostMemory& error) {
    return event(FailureKind::oom, error.what());
  } catch (const std::bad_alloc&) {
    return event(FailureKind::oom, "out of host memory");
  } catch (const FileError& error) {
    return event(FailureKind::unwritten, error.what());
  } catch (const std::exception& error) {
    const std::string reason = first_line(message_of(error));
    return out_of_memory(error) ? event(FailureKind::oom, reason) : event(FailureKind::failure, reason + place);
  }
}

Order order_of(const Json& command) {
  const std::string word = command.at("do");
  const auto order = parse_name<Order>(word);
  check(order.has_value(), "unknown command of the front: " + word);
  return *order;
}

Json rows_json(const std::vector<CheckRow>& rows) {
  Json json = Json::array();
  for (const CheckRow& row : rows) json.push_back(to_json(row));
  return json;
}

std::string means_of(const CaseSpec& spec) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  return meaning_of(promised(info, Params(info.params, spec.params, spec.strategy)).gradient);
}

Json calls_of(const Pulse& pulse) {
  Json made = Json::array();
  for (const auto& [group, calls] : pulse.calls())
    made.push_back({{"group", group}, {"count", calls.count}, {"hash", calls.hash}});
  return made;
}

// Returns the message to the front for a case that failed its checks and is therefore not timed: a wrong strategy
// must not be timed, and a broken process group would hang.
Json untimed(const CaseSpec& spec, int rank, const CheckedCase& checked) {
  RankRecord nothing;
  nothing.rank = rank;
  Json answer = {{"event", name_of(Event::ran)},       {"case", spec.id},
                 {"record", to_json(nothing)},         {"checks", rows_json(checked.rows)},
                 {"group_over", !checked.group_whole}, {"untimed", true}};
  if (checked.failure)
    answer["failed"] = {{"kind", name_of(checked.failure->kind)}, {"reason", checked.failure->reason}};
  return answer;
}

class CommandLoop {
 public:
  explicit CommandLoop(const Variables& variables)
      : variables_(variables),
        channel_(variables.channel),
        pulse_(variables.progress_file, variables.rank, variables.world) {}

  int run() {
    std::string current;
    try {
      at::set_num_threads(variables_.threads);
      bind_vector_math();
      for (const std::string& plugin : variables_.plugins) load_plugin(plugin);
      // this heartbeat tells the front (the dpbench process) that this rank has started and waits for its peers
      pulse_.beat();
      group_.emplace(variables_, [this](const StartedCall& call) { pulse_.note_call(call); });
      std::function<uint64_t()> collectives;
      if (const auto& joined = group_->process_group())
        collectives = [backend = joined->getDefaultBackend()] { return backend->getSequenceNumberForGroup(); };
      pulse_.follow(std::move(collectives), Computing::cpu_ns);
      group_->barrier();
      record_initial_memory();
      channel_.send({{"event", name_of(Event::ready)},
                     {"rank", variables_.rank},
                     {"pid", getpid()},
                     {"versions", loaded_versions()}});
      while (const auto command = channel_.receive()) {
        if (order_of(*command) == Order::quit) {
          release();
          return 0;
        }
        current = command->at("case").at("id").get<std::string>();
        channel_.send(execute(*command));
      }
      return 0;  // the front has exited, so no more commands come
    } catch (...) {
      channel_.send(failure_event(current, variables_.rank, place()));
      return 3;
    }
  }

 private:
  // Names the last collective that this rank called, for a failure message; empty without a process group.
  std::string place() const {
    const auto& joined = group_ ? group_->process_group() : nullptr;
    return joined ? " (in or after collective #" +
                        std::to_string(joined->getDefaultBackend()->getSequenceNumberForGroup()) + ")"
                  : "";
  }

  Json execute(const Json& command) {
    const CaseSpec spec = case_from_json(command.at("case"));
    const Order order = order_of(command);
    const bool same_case = timed_case_ && timed_case_->case_id() == spec.id;
    if (order == Order::end) return ended(spec, command);
    if (order != Order::block || !same_case) {
      pulse_.begin();
      release();
    }
    if (order == Order::check) {
      const CheckedCase checked = check_case(spec, suite_options(spec, command), *group_, pulse_, variables_.run_dir);
      return {{"event", name_of(Event::checked)},
              {"case", spec.id},
              {"checks", rows_json(checked.rows)},
              {"refused", name_of(checked.refusal)},
              {"group_over", !checked.group_whole}};
    }
    if (order == Order::train) return trained(spec, train_options_from_json(command.at("train")));
    Json checks = Json::array();
    if (command.at("check").get<bool>()) {
      const CheckedCase checked = check_case(spec,
                                             {.filter = checks_before_timing(spec),
                                              .scenarios = scenarios_before_timing(spec),
                                              .brief = true,
                                              .unwatched_s = 0.25,
                                              .begins = checking(spec)},
                                             *group_, pulse_, variables_.run_dir);
      // Tell the front (the dpbench process) that the checks are over.
      if (const auto tell = checking(spec)) tell(0, 0);
      if (!checked.sound) return untimed(spec, variables_.rank, checked);
      checks = rows_json(checked.rows);
    }
    const Sampling sampling = sampling_from_json(command.at("sampling"));
    pulse_.forget_calls();
    if (!timed_case_) timed_case_ = std::make_unique<TimedCase>(spec, sampling, *group_, pulse_, variables_.run_dir);
    const RankRecord record = timed_case_->block(sampling);
    // All audits are reported when a case ends. A failed one is also reported with the block before which it took
    // place, because `dpbench duel` then measures no further block.
    if (const auto audits = timed_case_->audits(); any_failed(audits))
      for (const Json& row : rows_json(audits)) checks.push_back(row);
    return ran(spec, record, checks);
  }

  Json ended(const CaseSpec& spec, const Json& command) {
    check(timed_case_ && timed_case_->case_id() == spec.id, "the case to end has no timed block");
    pulse_.forget_calls();
    RankRecord record = timed_case_->end(command.at("blocks"), command.value("last_steps", true));
    if (command.value("profile", true))
      timed_case_->profile(sampling_from_json(command.at("sampling")), command.at("retake"), record);
    const Json audits = rows_json(timed_case_->audits());
    timed_case_.reset();
    return ran(spec, record, audits);
  }

  Json ran(const CaseSpec& spec, const RankRecord& record, const Json& checks) const {
    return {{"event", name_of(Event::ran)}, {"case", spec.id},          {"record", to_json(record)}, {"checks", checks},
            {"means", means_of(spec)},      {"calls", calls_of(pulse_)}};
  }

  Json trained(const CaseSpec& spec, const TrainOptions& options) {
    const auto send = [&](const Json& event) { channel_.send(event); };
    pulse_.forget_calls();
    const TrainResult result = train_case(spec, options, *group_, pulse_, variables_.run_dir, send);
    return {{"event", name_of(Event::trained)},
            {"case", spec.id},
            {"record", to_json(result.record)},
            {"checks", rows_json(result.checks)},
            {"calls", calls_of(pulse_)},
            {"training", variables_.rank == 0 ? to_json(result.training) : Json(nullptr)}};
  }

  void release() {
    if (timed_case_) timed_case_->finish();
    timed_case_.reset();
  }

  // Returns a function that tells the front (the dpbench process) how many scenarios of the checks have begun. On ranks
  // other than 0, the returned function is empty.
  std::function<void(size_t, size_t)> checking(const CaseSpec& spec) {
    if (variables_.rank != 0) return {};
    return [this, id = spec.id](size_t number, size_t of) {
      channel_.send({{"event", name_of(Event::checking)}, {"case", id}, {"number", number}, {"of", of}});
    };
  }

  SuiteOptions suite_options(const CaseSpec& spec, const Json& command) {
    return {.filter = command.value("filter", ""),
            .seeds = command.value("seeds", 1),
            .whole_worlds = command.value("whole_worlds", 0),
            .unwatched_s = spec.world <= command.value("whole_worlds", 0) ? 1 : short_unwatched_s,
            .dump = command.value("dump", ""),
            .begins = checking(spec)};
  }

  Variables variables_;
  Channel channel_;
  Pulse pulse_;
  std::optional<Group> group_;
  std::unique_ptr<TimedCase> timed_case_;
};

}  // namespace

int serve(const Variables& variables) { return CommandLoop(variables).run(); }

}  // namespace dpbench
