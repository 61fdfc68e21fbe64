#include "harness/front/plan.h"

#include <algorithm>
#include <map>
#include <regex>

#include "harness/front/choice.h"
#include "harness/front/param_axis.h"
#include "harness/front/text.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

constexpr size_t kMostCases = 10000;

// A case before it is known whether it can run; `added`: nobody asked for it by name.
struct Row {
  CaseSpec spec;
  std::string why_not, note = {};
  bool unavailable = false, added = false;
};

class Planner {
 public:
  Planner(const Selection& what, const Catalogue& catalogue, const Machine& machine)
      : what_(what),
        catalogue_(catalogue),
        machine_(machine),
        strategies_(chosen_strategies(what, catalogue)),
        workloads_(chosen_workloads(what, catalogue)),
        places_(chosen_places(what, machine)),
        backends_(chosen_backends(what, catalogue)),
        axes_(parse_params(what.params, strategies_)) {}

  Plan plan() {
    for (const WorkloadEntry* workload : workloads_) add_workload(*workload);
    filter();
    refuse_nothing();
    return settled();
  }

 private:
  void add_workload(const WorkloadEntry& workload) {
    const auto batches = what_.batches.empty() ? std::vector<int64_t>{workload.batch} : without_repeats(what_.batches);
    const auto dtypes = what_.dtypes.empty() ? std::vector<std::string>{"f32"} : without_repeats(what_.dtypes);
    for (const int64_t batch : batches)
      for (const auto& dtype : dtypes) {
        CaseSpec base{.id = "",
                      .strategy = "",
                      .workload = workload.name,
                      .batch = batch,
                      .dtype = dtype,
                      .params = {},
                      .scale = what_.scale,
                      .accumulate = what_.accumulate,
                      .clip_norm = what_.clip_norm,
                      .seed = what_.seed,
                      .data_dir = what_.data_dir};
        base.scaling = what_.scaling.empty() ? workload.scaling : what_.scaling;
        add_baselines(base);
        for (const StrategyEntry* strategy : strategies_) add_strategy(base, *strategy);
      }
  }

  void add_baselines(const CaseSpec& base) {
    if (!what_.baseline) return;
    for (const std::string device : {"cuda", "cpu"}) {
      const bool used =
          std::any_of(places_.begin(), places_.end(), [&](const Place& place) { return place.device == device; });
      if (const StrategyEntry* strategy = baseline_on(device); used && strategy)
        add_row(base, *strategy, {device, 1}, {}, "none", true);
    }
  }

  const StrategyEntry* baseline_on(const std::string& device) const {
    for (const auto& strategy : catalogue_.strategies)
      if (strategy.parallelism == "single" && strategy.runs_on(device)) return &strategy;
    return nullptr;
  }

  void add_strategy(const CaseSpec& base, const StrategyEntry& strategy) {
    const bool named = !what_.strategies.empty();
    std::vector<Place> places;
    for (const auto& place : places_) {
      const Place mine{place.device, strategy.parallelism == "single" ? 1 : place.world};
      if (strategy.runs_on(place.device)) places.push_back(mine);
    }
    if (places.empty() && named) places = elsewhere(strategy);
    for (const auto& place : places)
      for (const auto& params : combinations(axes_, strategy))
        for (const auto& backend : backends_of(strategy, place, base.workload))
          add_row(base, strategy, place, params, backend, false);
  }

  std::vector<std::string> backends_of(const StrategyEntry& strategy, const Place& place, const std::string& workload) const {
    if (strategy.parallelism != "ranks") return {"none"};
    if (!what_.every_backend || !what_.backends.empty()) return backends_;
    if (place.world > what_.whole_worlds && !backend_matters(place, workload)) return backends_;
    std::vector<std::string> fitting;
    for (const auto& backend : catalogue_.backends)
      if (backend.takes(place.device) && !backend.threads) fitting.push_back(backend.name);
    return fitting.empty() ? backends_ : fitting;
  }

  // To the workloads, and to probes made of what a backend does; never to a rank alone.
  bool backend_matters(const Place& place, const std::string& workload) const {
    const WorkloadEntry* entry = find_entry(catalogue_.workloads, workload);
    return place.world > 1 && (!entry->probe || entry->thorough);
  }

  // A strategy named by the user that runs on none of the chosen devices: a single one has its own device all the same.
  std::vector<Place> elsewhere(const StrategyEntry& strategy) const {
    const std::string device = strategy.cuda ? "cuda" : "cpu";
    if (strategy.parallelism == "single") return {{device, 1}};
    std::vector<Place> places = places_;
    for (auto& place : places) place.device = device;
    return places;
  }

  void add_row(const CaseSpec& base, const StrategyEntry& strategy, const Place& place, const ParamValues& params,
               const std::string& backend, bool added) {
    Row row{.spec = base, .why_not = "", .unavailable = false, .added = added};
    CaseSpec& spec = row.spec;
    spec.strategy = strategy.name;
    spec.device = place.device;
    spec.world = place.world;
    spec.processes = strategy.parallelism == "ranks" ? place.world : 1;
    spec.params = params;
    spec.backend = backend;
    spec.oversubscribe = place.device == "cuda" && static_cast<size_t>(here_of(spec)) > machine_.gpus.size();
    spec.baseline = &strategy == baseline_on(place.device) && params.empty();  // another way of it is held against it
    if (place.device == "cuda" && machine_.gpus.empty())
      lacks_gpu(row);
    else if (strategy.parallelism == "ranks")
      settle_backend(row);
    judge_launch(row, strategy);
    judge_batch(row, strategy);
    spec.id = case_id(spec);
    keep(std::move(row));
  }

  // Those of a case's replicas that are on this host.
  int here_of(const CaseSpec& spec) const { return what_.launched_world > 0 ? what_.launched_local_world : spec.world; }

  void keep(Row row) {
    if (const auto known = ids_.find(row.spec.id); known != ids_.end()) {
      rows_[known->second].added &= row.added;
      return;
    }
    ids_[row.spec.id] = rows_.size();
    rows_.push_back(std::move(row));
    if (rows_.size() > kMostCases)
      throw UsageError("this makes more than " + std::to_string(kMostCases) + " cases; choose fewer values");
  }

  // Of a strategy that runs on GPUs alone: another that shares a model out in the same way.
  std::string way_without_gpu(const CaseSpec& spec) const {
    const StrategyEntry* wanted = find_entry(catalogue_.strategies, spec.strategy);
    for (const auto& other : catalogue_.strategies)
      if (other.parallelism == wanted->parallelism && other.runs_on("cpu"))
        return "; on the CPU: --strategy " + other.name + " --cpus " + std::to_string(spec.world);
    return "";
  }

  void lacks_gpu(Row& row) const {
    row.unavailable = true;
    row.why_not = "'" + row.spec.strategy + "' needs a GPU and this machine has none (" + machine_.no_gpu_reason + ")" + way_without_gpu(row.spec);
    if (row.spec.backend == "auto") row.spec.backend = "none";
  }

  void settle_backend(Row& row) const {
    CaseSpec& spec = row.spec;
    const bool automatic = spec.backend == "auto";
    if (automatic) spec.backend = automatic_backend(spec);
    const BackendEntry* backend = find_entry(catalogue_.backends, spec.backend);
    if (!backend) {
      row.why_not = "no backend of this build carries " + spec.device + " tensors between so many ranks";
      row.unavailable = true;
    } else if (backend->threads) {
      row.why_not = "backend '" + backend->name + "' joins threads of one process: it is for tests alone";
    } else if (!backend->takes(spec.device)) {
      row.why_not = "backend '" + backend->name + "' takes no " + spec.device + " tensors; use --backend auto";
    } else if (spec.oversubscribe && !backend->shares_device) {
      row.why_not = "backend '" + backend->name + "' lets no two ranks share a GPU; use --backend gloo or fewer --gpus";
    } else if (automatic && spec.oversubscribe) {
      row.note = backend->name + ": " + std::to_string(here_of(spec)) + " ranks share " + count_of(machine_.gpus.size()) + ", which NCCL refuses";
    }
  }

  // Under a launcher the ranks are there already: no more, no fewer.
  void judge_launch(Row& row, const StrategyEntry& strategy) const {
    const int started = what_.launched_world;
    if (started == 0 || !row.why_not.empty()) return;
    const std::string world = std::to_string(row.spec.world), who = "'" + strategy.name + "'";
    if (strategy.parallelism == "ranks" && row.spec.world != started)
      row.why_not = what_.launched_by + " started " + std::to_string(started) + " ranks, and a world of " + world + " needs " + world;
    if (strategy.parallelism == "replicas" && row.spec.world > 1)
      row.why_not = who + " is one process with " + world + " replicas: run it without " + what_.launched_by + ", or with --launcher self";
  }

  // Where every host has one rank, shm has no memory to share: it would be gloo, and an agreement of all before every call.
  std::vector<std::string> preferred_backends(const std::string& device) const {
    if (device == "cuda") return {"nccl", "gloo"};
    const bool one_rank_a_host = what_.launched_hosts > 1 && what_.launched_hosts == what_.launched_world;
    return one_rank_a_host ? std::vector<std::string>{"gloo", "shm"} : std::vector<std::string>{"shm", "gloo"};
  }

  // The first that this build has and that can.
  std::string automatic_backend(const CaseSpec& spec) const {
    for (const auto& name : preferred_backends(spec.device)) {
      const BackendEntry* backend = find_entry(catalogue_.backends, name);
      if (backend && backend->takes(spec.device) && (backend->shares_device || !spec.oversubscribe)) return name;
    }
    return "none";
  }

  // What the catalogue tells of a built-in workload stands for every scale, and for --data where it reads none.
  static bool tells_rows(const WorkloadEntry& workload, const CaseSpec& spec) {
    const bool other_data = !spec.data_dir.empty() && !workload.digits;  // the rows of digits' files were counted
    return workload.samples != 0 && !(workload.plugin && (spec.scale != 1 || other_data));
  }

  // More rows in a step than there are; empty: no.
  std::string too_many(const CaseSpec& spec) const {
    const WorkloadEntry* workload = find_entry(catalogue_.workloads, spec.workload);
    const int64_t rows = spec.global_batch();
    if (what_.whole_epochs || !tells_rows(*workload, spec) || rows <= workload->samples) return "";
    const bool several = spec.scaling == "weak" && spec.world > 1, given = workload->digits && !spec.data_dir.empty();
    const std::string each = several ? std::to_string(spec.batch) + " on each of " + std::to_string(spec.world) + " devices, " : "";
    return "a step of " + std::to_string(rows) + " rows (" + each + "--batch) is more than " + spec.workload + " has" +
           (given ? " in --data " + one_line(spec.data_dir, 200) : "") + " (" + std::to_string(workload->samples) + "); " +
           (given ? "give it more rows, or " : "") + "use a smaller --batch" + (several ? " or fewer devices" : "");
  }

  // A batch that the user chose is refused; one that is a workload's own is skipped, and so is one too large for a workload that nobody named.
  void judge_batch(Row& row, const StrategyEntry& strategy) const {
    if (what_.own_rows) return;
    const CaseSpec& spec = row.spec;
    const std::string who = strategy.name + " on " + spec.workload, rows = std::to_string(spec.batch);
    const std::string batch = what_.batches.empty() ? spec.workload + "'s own batch of " + rows : "--batch " + rows;
    const int64_t fewest = strategy.parallelism == "ranks" ? spec.global_batch() / spec.world : spec.global_batch();
    std::string why;
    if (fewest == 0)
      why = batch + " is smaller than the world " + std::to_string(spec.world) + ": " + who +
            " needs a row for each rank; use --batch " + std::to_string(spec.world) + " or more, or fewer devices";
    else if (fewest < spec.accumulate)
      why = "--accumulate " + std::to_string(spec.accumulate) + ": " + who + " has only " + std::to_string(fewest) +
            " rows in a step of a rank; use a larger --batch";
    if (!why.empty() && !what_.batches.empty()) throw UsageError(why);
    if (why.empty()) why = too_many(spec);
    if (!row.why_not.empty()) return;
    if (!why.empty() && !what_.batches.empty() && !what_.workloads.empty()) throw UsageError(why);
    row.why_not = why;
  }

  // A baseline stays as long as a row that it is there for does.
  void filter() {
    if (what_.filter.empty()) return;
    const std::regex wanted(what_.filter);
    const auto matches = [&](const Row& row) { return std::regex_search(row.spec.id, wanted); };
    const auto serves = [&](const Row& row) {
      return what_.baseline && row.spec.baseline && std::any_of(rows_.begin(), rows_.end(), [&](const Row& other) {
               return matches(other) && same_question(row.spec, other.spec);
             });
    };
    std::vector<Row> left;
    for (const auto& row : rows_)
      if (matches(row) || serves(row)) left.push_back(row);
    rows_ = std::move(left);
  }

  static bool same_question(const CaseSpec& a, const CaseSpec& b) {
    return a.workload == b.workload && a.device == b.device && a.batch == b.batch && a.dtype == b.dtype;
  }

  void refuse_nothing() const {
    if (rows_.empty())
      throw UsageError("nothing matched" + (what_.filter.empty() ? "" : " --filter '" + what_.filter + "'") +
                       "; --dry-run without it shows every case");
    const Row* refused = nullptr;
    for (const auto& row : rows_) {
      if (!row.added && row.why_not.empty()) return;
      if (!refused && !row.why_not.empty()) refused = &row;
    }
    if (!refused) return;
    if (refused->unavailable) throw Unavailable(refused->why_not);
    throw UsageError(refused->why_not);
  }

  Plan settled() const {
    Plan plan;
    int largest = 1;
    for (const auto& row : rows_)
      if (row.why_not.empty()) largest = std::max(largest, row.spec.world);
    plan.threads = what_.threads > 0 ? what_.threads : std::max(1, machine_.cores / largest);
    for (auto row : rows_) {
      row.spec.threads = plan.threads;
      if (!row.why_not.empty()) {
        plan.skipped.push_back({row.spec, row.why_not});
        continue;
      }
      plan.cases.push_back(row.spec);
      if (!row.note.empty()) plan.notes[row.spec.id] = row.note;
    }
    return plan;
  }

  const Selection& what_;
  const Catalogue& catalogue_;
  const Machine& machine_;
  std::vector<const StrategyEntry*> strategies_;
  std::vector<const WorkloadEntry*> workloads_;
  std::vector<Place> places_;
  std::vector<std::string> backends_;
  std::vector<ParamAxis> axes_;
  std::vector<Row> rows_;
  std::map<std::string, size_t> ids_;
};

}  // namespace

Plan make_plan(const Selection& what, const Catalogue& catalogue, const Machine& machine) {
  return Planner(what, catalogue, machine).plan();
}

}  // namespace dpbench
