#include "harness/worker/serve.h"

#include <stdexcept>

#include <ATen/Parallel.h>
#include <unistd.h>

#include "harness/conform/thrown.h"
#include "harness/report/first_line.h"
#include "harness/worker/block_run.h"
#include "harness/worker/channel.h"
#include "harness/worker/check_case.h"
#include "harness/worker/cuda.h"
#include "harness/worker/group.h"
#include "harness/worker/memory.h"
#include "harness/worker/plugins.h"
#include "harness/worker/pulse.h"
#include "harness/worker/run_case.h"
#include "harness/worker/train.h"
#include "workloads/data/safetensors_file.h"

namespace dpbench {
namespace {

// What went wrong, in the words of the protocol.
Json failure_event(const std::string& case_id, int rank, const std::string& place) {
  const auto event = [&](const char* kind, const std::string& reason) -> Json {
    return {{"event", "failed"}, {"case", case_id}, {"rank", rank}, {"kind", kind}, {"reason", reason}};
  };
  try {
    throw;
  } catch (const UsageError& error) {
    return event("usage", error.what());
  } catch (const Unavailable& error) {
    return event("unavailable", error.what());
  } catch (const std::domain_error& error) {
    return event("nan", error.what());
  } catch (const OutOfHostMemory& error) {
    return event("oom", error.what());
  } catch (const std::bad_alloc&) {
    return event("oom", "out of host memory");
  } catch (const FileError& error) {
    return event("unwritten", error.what());
  } catch (const std::exception& error) {
    const std::string reason = first_line(message_of(error));
    return out_of_memory(error) ? event("oom", reason) : event("failure", reason + place);
  }
}

class Session {
 public:
  explicit Session(const Variables& variables)
      : variables_(variables), channel_(variables.channel), pulse_(variables.progress_file, variables.rank, variables.world) {}

  int run() {
    std::string current;
    try {
      at::set_num_threads(variables_.threads);
      for (const std::string& plugin : variables_.plugins) load_plugin(plugin);
      pulse_.beat();  // it has come, and waits for the others now
      group_.emplace(variables_, [this](uint64_t number, std::string_view call) { pulse_.note_call(number, call); });
      if (const auto& joined = group_->process_group())
        pulse_.follow([backend = joined->getDefaultBackend()] { return backend->getSequenceNumberForGroup(); });
      group_->barrier();
      note_bare_memory();
      channel_.send(
          {{"event", "ready"}, {"rank", variables_.rank}, {"pid", getpid()}, {"versions", loaded_versions()}});
      while (const auto command = channel_.receive()) {
        if (command->at("do") == "quit") {
          release();
          return 0;
        }
        current = command->at("case").at("id").get<std::string>();
        channel_.send(carry_out(*command));
      }
      return 0;  // the front is gone: so is the reason to be here
    } catch (...) {
      channel_.send(failure_event(current, variables_.rank, place()));
      return 3;
    }
  }

 private:
  // How far this rank had come in what all call in turn.
  std::string place() const {
    const auto& joined = group_ ? group_->process_group() : nullptr;
    return joined ? " (in or after collective #" + std::to_string(joined->getDefaultBackend()->getSequenceNumberForGroup()) + ")" : "";
  }

  Json carry_out(const Json& command) {
    const CaseSpec spec = case_from_json(command.at("case"));
    const std::string what = command.at("do");
    if (what != "block") pulse_.begin();
    if (what != "block") release();
    if (what == "check") {
      const CheckedCase checked = check_case(spec, asked(command), *group_, pulse_, variables_.run_dir);
      return {{"event", "checked"}, {"case", spec.id}, {"checks", rows_of(checked.rows)}, {"group_over", !checked.group_whole}};
    }
    if (what == "train") return trained(spec, train_options_from_json(command.at("train")));
    check(what == "run" || what == "block", "unknown command of the front: " + what);
    Json checks = Json::array();
    if (command.at("check").get<bool>()) {
      const CheckedCase checked = check_case(spec, {.filter = checks_before_timing(spec)}, *group_, pulse_, variables_.run_dir);
      if (!checked.sound) return untimed(spec, checked);
      checks = rows_of(checked.rows);
    }
    const Sampling sampling = sampling_from_json(command.at("sampling"));
    pulse_.forget_calls();
    const RankRecord record = what == "run" ? run_case(spec, sampling, *group_, pulse_, variables_.run_dir) : block(spec, sampling);
    return {{"event", "ran"}, {"case", spec.id}, {"record", to_json(record)}, {"checks", checks}, {"calls", calls()}};
  }

  Json calls() const {
    const Pulse::Calls made = pulse_.calls();
    return {{"count", made.count}, {"hash", made.hash}};
  }

  // What is wrong gets no speed; where the checks broke the group, timing would hang.
  Json untimed(const CaseSpec& spec, const CheckedCase& checked) const {
    RankRecord nothing;
    nothing.rank = variables_.rank;
    Json answer = {{"event", "ran"},
                   {"case", spec.id},
                   {"record", to_json(nothing)},
                   {"checks", rows_of(checked.rows)},
                   {"group_over", !checked.group_whole},
                   {"untimed", true}};
    if (checked.failure) answer["failed"] = {{"kind", checked.failure->kind}, {"reason", checked.failure->reason}};
    return answer;
  }

  Json trained(const CaseSpec& spec, const TrainOptions& options) {
    const auto say = [&](const Json& event) { channel_.send(event); };
    pulse_.forget_calls();
    const TrainResult result = train_case(spec, options, *group_, pulse_, variables_.run_dir, say);
    return {{"event", "trained"},
            {"case", spec.id},
            {"record", to_json(result.record)},
            {"checks", rows_of(result.checks)},
            {"calls", calls()},
            {"training", variables_.rank == 0 ? to_json(result.training) : Json(nullptr)}};
  }

  RankRecord block(const CaseSpec& spec, const Sampling& sampling) {
    if (held_ && held_->case_id() != spec.id) release();
    if (!held_) held_ = std::make_unique<BlockRun>(spec, sampling.warmup, *group_, pulse_, variables_.run_dir);
    return held_->block(sampling);
  }

  void release() {
    if (held_) held_->finish();
    held_.reset();
  }

  static CheckOptions asked(const Json& command) {
    return {.filter = command.value("filter", ""),
            .seeds = command.value("seeds", 1),
            .whole_worlds = command.value("whole_worlds", 0),
            .dump = command.value("dump", "")};
  }

  static Json rows_of(const std::vector<CheckRow>& rows) {
    Json json = Json::array();
    for (const CheckRow& row : rows) json.push_back(to_json(row));
    return json;
  }

  Variables variables_;
  Channel channel_;
  Pulse pulse_;
  std::optional<Group> group_;
  std::unique_ptr<BlockRun> held_;
};

}  // namespace

int serve(const Variables& variables) { return Session(variables).run(); }

}  // namespace dpbench
