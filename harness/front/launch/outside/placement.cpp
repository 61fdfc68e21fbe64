#include "harness/front/launch/outside/placement.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"
#include "workloads/base/hash.h"
#include "workloads/base/number.h"

namespace dpbench {
namespace {

constexpr int max_ranks = 1024;

// The names of the environment variables that a launcher sets. `marker` is a variable that no other launcher sets. The
// other members except `nonce` list alternatives: the first variable that is set is used. For `nonce`, which identifies
// the started group of ranks, the values of all variables that are set are joined.
struct VariableNames {
  StartedBy launcher;
  std::string marker;
  std::vector<std::string> rank, world, local_rank, local_world, node, nonce;
};

// Returns the known launchers in the order in which they are tried. An inner launcher comes first: torchrun may run
// under mpirun, and mpirun under srun.
const std::vector<VariableNames>& known_launchers() {
  static const std::vector<VariableNames> all = {
      {.launcher = StartedBy::torchrun,
       .marker = "TORCHELASTIC_RUN_ID",
       .rank = {"RANK"},
       .world = {"WORLD_SIZE"},
       .local_rank = {"LOCAL_RANK"},
       .local_world = {"LOCAL_WORLD_SIZE"},
       .node = {"GROUP_RANK"},
       .nonce = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
      {.launcher = StartedBy::mpi,
       .marker = "OMPI_COMM_WORLD_SIZE",
       .rank = {"OMPI_COMM_WORLD_RANK"},
       .world = {"OMPI_COMM_WORLD_SIZE"},
       .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
       .local_world = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       .node = {},
       .nonce = {"PMIX_NAMESPACE", "OMPI_MCA_orte_ess_jobid"}},
      {.launcher = StartedBy::slurm,
       .marker = "SLURM_STEP_ID",
       .rank = {"SLURM_PROCID"},
       .world = {"SLURM_STEP_NUM_TASKS"},
       .local_rank = {"SLURM_LOCALID"},
       .local_world = {},  // the local world size is computed from SLURM_STEP_TASKS_PER_NODE
       .node = {"SLURM_NODEID"},
       .nonce = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {.launcher = StartedBy::mpi,  // variables of MPICH and of the MPI libraries derived from it
       .marker = "PMI_SIZE",
       .rank = {"PMI_RANK"},
       .world = {"PMI_SIZE"},
       .local_rank = {"MPI_LOCALRANKID"},
       .local_world = {"MPI_LOCALNRANKS"},
       .node = {},
       .nonce = {"HYDI_CONTROL_FD"}},
  };
  return all;
}

// The environment variables of torch.distributed's env:// rendezvous, for ranks started by hand or by a script.
const VariableNames& env_names() {
  static const VariableNames names = {.launcher = StartedBy::env,
                                      .marker = "RANK",
                                      .rank = {"RANK"},
                                      .world = {"WORLD_SIZE"},
                                      .local_rank = {"LOCAL_RANK"},
                                      .local_world = {"LOCAL_WORLD_SIZE"},
                                      .node = {"GROUP_RANK"},
                                      .nonce = {"DPBENCH_NONCE"}};
  return names;
}

class Reader {
 public:
  Reader(const VariableNames& names, const Variable& variable) : names_(names), variable_(variable) {}

  Placement read() const {
    Placement p{.launcher = names_.launcher};
    p.world = number(names_.world, 1, max_ranks, std::nullopt);
    p.rank = number(names_.rank, 0, p.world - 1, std::nullopt);
    p.local_world = local_world(p.world);
    p.local_rank = number(names_.local_rank, 0, p.local_world - 1, p.local_world == p.world ? p.rank : 0);
    p.node = text(names_.node).value_or("");
    for (const auto& name : names_.nonce)
      if (const auto part = variable_(name)) p.nonce += (p.nonce.empty() ? "" : ".") + *part;
    p.store_is_served = variable_("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    find_master(p);
    return p;
  }

 private:
  std::optional<std::string> text(const std::vector<std::string>& names) const {
    for (const auto& name : names)
      if (const auto value = variable_(name)) return value;
    return std::nullopt;
  }

  int number(const std::vector<std::string>& names, int low, int high, std::optional<int> fallback) const {
    const auto value = text(names);
    if (!value && fallback) return *fallback;
    if (!value) throw UsageError(names_.launcher + " has not set " + join(names, " or "));
    const auto parsed = parse_number<int>(*value);
    if (!parsed || *parsed < low || *parsed > high)
      throw UsageError(join(names, " or ") + "='" + one_line(*value, 40) + "' must be a whole number from " +
                       std::to_string(low) + " to " + std::to_string(high) + " (set by " + names_.launcher +
                       "). --launcher self ignores it");
    return *parsed;
  }

  int local_world(int world) const {
    const auto counts = names_.launcher == StartedBy::slurm ? variable_("SLURM_STEP_TASKS_PER_NODE") : std::nullopt;
    if (!counts) return number(names_.local_world, 1, world, world);
    const int node = number({"SLURM_NODEID"}, 0, max_ranks, 0);
    return std::min(world, std::max(1, tasks_on_node(*counts, node)));
  }

  // Returns the number of Slurm tasks on a node, counted from 0. In "2(x3),1", nodes 0 to 2 have 2 tasks each, and node
  // 3 has 1.
  static int tasks_on_node(const std::string& counts, int node) {
    for (const auto& part : split(counts, ',')) {
      const int tasks = std::atoi(part.c_str());
      const size_t times = part.find("(x");
      const int nodes = times == std::string::npos ? 1 : std::max(1, std::atoi(part.c_str() + times + 2));
      if (node < nodes) return tasks;
      node -= nodes;
    }
    return 1;
  }

  void find_master(Placement& p) const {
    const bool one_host = p.local_world == p.world;
    p.master_addr = variable_("MASTER_ADDR").value_or("");
    if (p.master_addr.empty())
      p.master_addr =
          one_host ? "127.0.0.1" : first_host(text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}).value_or(""));
    if (p.master_addr.empty())
      throw UsageError("the " + std::to_string(p.world) + " ranks of " + p.launcher +
                       " are on several hosts. Set MASTER_ADDR to an address of rank 0's host on all of them");
    p.master_port = number({"MASTER_PORT"}, 1, 65535, port_of(p.nonce));
  }

  // Derives a rendezvous port from the nonce, which the launcher gives to all ranks that it starts together. So these
  // ranks use the same port, and other runs most likely another. The port is below the kernel's ephemeral ports.
  static int port_of(const std::string& nonce) { return 20000 + static_cast<int>(fnv1a(nonce) % 12000); }

  const VariableNames& names_;
  const Variable& variable_;
};

bool is_set(const Variable& variable, const std::string& name) { return variable(name).has_value(); }

}  // namespace

std::map<std::string, std::string> variables_of(const Placement& p) {
  const bool serves = p.rank == 0 && !p.store_is_served;
  return {{"RANK", std::to_string(p.rank)},
          {"WORLD_SIZE", std::to_string(p.world)},
          {"LOCAL_RANK", std::to_string(p.local_rank)},
          {"LOCAL_WORLD_SIZE", std::to_string(p.local_world)},
          {"MASTER_ADDR", p.master_addr},
          {"DPBENCH_FD", "3"},  // file descriptor through which this process and its relay exchange messages
          // Dpbench-worker requires the variable DPBENCH_RUN_DIR, although the relay does not use it.
          {"DPBENCH_RUN_DIR", "/"},
          {"DPBENCH_STORE", p.master_addr + ":" + std::to_string(p.master_port)},
          {"DPBENCH_NONCE", p.nonce},
          {"DPBENCH_SERVES", serves ? "1" : "0"},
          {"OMP_NUM_THREADS", "1"}};
}

std::string first_host(const std::string& node_list) {
  const size_t bracket = node_list.find('['), comma = node_list.find(',');
  if (bracket == std::string::npos || comma < bracket) return node_list.substr(0, comma);
  const size_t end = node_list.find_first_of("-,]", bracket);
  return node_list.substr(0, bracket) + node_list.substr(bracket + 1, end - bracket - 1);
}

std::optional<Placement> find_placement(StartedBy choice, const Variable& variable) {
  if (choice == StartedBy::self) return std::nullopt;
  const bool automatic = choice == StartedBy::automatic;
  for (const auto& names : known_launchers())
    if ((automatic || choice == names.launcher) && is_set(variable, names.marker))
      return Reader(names, variable).read();
  const bool by_variables =
      is_set(variable, "RANK") && is_set(variable, "WORLD_SIZE") && is_set(variable, "MASTER_ADDR");
  if ((automatic && by_variables) || choice == StartedBy::env) return Reader(env_names(), variable).read();
  if (automatic) return std::nullopt;
  throw UsageError("--launcher " + choice + ": this process was not started by it. Use --launcher self");
}

std::optional<Placement> find_placement(StartedBy choice) {
  return find_placement(choice, [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value && *value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace dpbench
