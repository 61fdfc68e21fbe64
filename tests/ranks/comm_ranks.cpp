#include "tests/ranks/comm_ranks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <filesystem>
#include <thread>

#include "strategies/api/named_tensors.h"
#include "workloads/base/error.h"

namespace dpbench::testing {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;
using SetupBody = std::function<void(const BackendSetup&)>;

// Returns the setup of a rank. Each host has per_host ranks; the last host may have fewer.
BackendSetup setup_of(const Team& team, const Store& store, int rank) {
  const int per_host = team.per_host ? team.per_host : team.world, first = rank / per_host * per_host;
  BackendSetup setup;
  setup.store = store;
  setup.rank = rank;
  setup.world = team.world;
  setup.local_rank = rank - first;
  setup.local_world = std::min(per_host, team.world - first);
  setup.timeout = team.timeout;
  return setup;
}

std::string run_rank(const Team& team, const Store& store, int rank, const SetupBody& body) try {
  BackendSetup setup = setup_of(team, store, rank);
  team.adjust(setup);
  body(setup);
  return {};
} catch (const std::exception& error) {
  return error.what();
}

std::vector<std::string> run_threads(const Team& team, const SetupBody& body) {
  const Store store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(team.world);
  std::vector<std::thread> threads;
  for (int r = 0; r < team.world; ++r) threads.emplace_back([&, r] { errors[r] = run_rank(team, store, r, body); });
  for (auto& thread : threads) thread.join();
  return errors;
}

struct Child {
  pid_t pid;
  int output;
};

// Starts a child process, which runs the rank and reports its error through a pipe.
Child fork_rank(const Team& team, const std::string& file, int rank, const SetupBody& body) {
  int ends[2];
  check(pipe(ends) == 0, "no pipe");
  const pid_t pid = fork();
  check(pid >= 0, "no process");
  if (pid > 0) return close(ends[1]), Child{pid, ends[0]};
  at::set_num_threads(1);
  const std::string errors = run_rank(team, c10::make_intrusive<c10d::FileStore>(file, team.world), rank, body);
  const auto written = write(ends[1], errors.data(), errors.size());
  _exit(written == static_cast<ssize_t>(errors.size()) ? 0 : 1);
}

std::string collect(const Child& child) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(child.output, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  close(child.output);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (WIFSIGNALED(status)) return "ended by signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  return text;
}

std::vector<std::string> run_processes(const Team& team, const SetupBody& body) {
  std::string directory = std::filesystem::temp_directory_path() / "dpbench-ranks-XXXXXX";
  check(mkdtemp(directory.data()) != nullptr, "no temporary directory");
  std::vector<Child> children;
  for (int r = 0; r < team.world; ++r) children.push_back(fork_rank(team, directory + "/store", r, body));
  std::vector<std::string> errors;
  for (const auto& child : children) errors.push_back(collect(child));
  std::filesystem::remove_all(directory);
  return errors;
}

}  // namespace

std::vector<std::string> run_ranks(const Team& team, const Body& body) {
  return run_setups(
      team, [&](const BackendSetup& setup) { body(backend_registry().at(team.backend).make(setup), setup.rank); });
}

std::vector<std::string> run_setups(const Team& team, const SetupBody& body) {
  setenv("MASTER_ADDR", "127.0.0.1", 0);  // gloo connects the simulated hosts over the loopback address
  // Disable LibTorch's flight recorder. It keeps groups in a map without a lock, so several ranks in one process crash.
  setenv("TORCH_FR_BUFFER_SIZE", "0", 0);
  return team.as == As::threads ? run_threads(team, body) : run_processes(team, body);
}

void expect_ranks_succeed(const Team& team, const Body& body) {
  const auto errors = run_ranks(team, body);
  for (int r = 0; r < team.world; ++r) EXPECT_EQ(errors[r], "") << "rank " << r << " of " << team.world;
}

void require_equal(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  if (same_bits(got, want)) return;
  if (got.sizes() != want.sizes() || got.scalar_type() != want.scalar_type())
    throw std::runtime_error(c10::str(what, ": got ", got.scalar_type(), " of shape ", got.sizes(), ", want ",
                                      want.scalar_type(), " of shape ", want.sizes()));
  const at::Tensor found = got.to(at::kDouble), due = want.to(at::kDouble);
  const at::Tensor equal = found.eq(due).logical_and_(found.signbit().eq(due.signbit()));
  const at::Tensor both_nan = found.isnan().logical_and_(due.isnan());
  const at::Tensor differ = equal.logical_or_(both_nan).logical_not_().flatten().nonzero().flatten();
  const int64_t at = differ.numel() > 0 ? differ[0].item<int64_t>() : 0;
  throw std::runtime_error(c10::str(what, ": ", differ.numel(), " of ", got.numel(), " elements differ, the first is ",
                                    at, ": got ", got.flatten()[at].item<double>(), ", want ",
                                    want.flatten()[at].item<double>()));
}

}  // namespace dpbench::testing
