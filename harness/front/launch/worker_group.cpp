#include "harness/front/launch/worker_group.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

constexpr size_t max_line_bytes = 64u << 20;
constexpr char reaper_variable[] = "DPBENCH_KEPT_BY";  // environment variable that marks the ranks and their children
constexpr double quit_seconds = 5, quit_seconds_per_rank = 0.25, term_seconds = 0.5, kill_seconds = 5;

std::string random_hex() {
  std::array<unsigned char, 16> bytes{};
  check(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "getrandom failed");
  std::string hex;
  for (const unsigned char byte : bytes) hex += "0123456789abcdef"[byte >> 4], hex += "0123456789abcdef"[byte & 15];
  return hex;
}

// Returns a rank's equal share of the cores. Empty, which means all cores, for a single rank or if there are fewer
// cores than ranks.
std::vector<int> share(const std::vector<int>& cpus, int rank, int ranks) {
  const size_t each = cpus.size() / static_cast<size_t>(ranks);
  if (ranks == 1 || each == 0) return {};
  const auto first = cpus.begin() + static_cast<ptrdiff_t>(each) * rank;
  return {first, first + static_cast<ptrdiff_t>(each)};
}

// Returns the seat (rank numbers and rendezvous) of a rank that dpbench itself starts. The rendezvous is a file in the
// run's scratch directory.
Seat local_seat(int rank, const GroupSpec& spec, const Scratch& scratch) {
  return {.rank = rank,
          .local_rank = rank,
          .local_world = spec.processes,
          .world = spec.processes,
          .directory = scratch.path()};
}

std::map<std::string, std::string> variables_of(const Seat& seat, const GroupSpec& spec, const WorkerSettings& settings,
                                                const ProgressPage& page, const std::string& mark) {
  // Give the ranks a longer timeout than the one of this process. So this process identifies a stuck rank before the
  // ranks that wait for it time out.
  const auto timeout = static_cast<int64_t>(settings.timeout_s) + 10;
  std::vector<std::string> plugins = settings.plugins;
  if (!spec.python) std::erase_if(plugins, is_python);
  const std::string threads = std::to_string(spec.threads);
  std::string cores;
  if (!share(settings.cpus, seat.local_rank, seat.local_world).empty())
    for (const int core : settings.cpus) cores += (cores.empty() ? "" : ",") + std::to_string(core);
  std::map<std::string, std::string> all = {{"RANK", std::to_string(seat.rank)},
                                            {"LOCAL_RANK", std::to_string(seat.local_rank)},
                                            {"WORLD_SIZE", std::to_string(seat.world)},
                                            {"LOCAL_WORLD_SIZE", std::to_string(seat.local_world)},
                                            {"DPBENCH_FD", "3"},
                                            {"DPBENCH_RUN_DIR", seat.directory},
                                            {"DPBENCH_STORE", seat.store},
                                            {"DPBENCH_GROUP", spec.name},
                                            {"DPBENCH_NONCE", spec.nonce},
                                            {reaper_variable, mark},
                                            {"DPBENCH_SETTINGS", to_json(spec).dump()},
                                            // The next four variables, such as DPBENCH_BACKEND, are for workers of
                                            // older builds, which `duel` may start and which do not read
                                            // DPBENCH_SETTINGS.
                                            {"DPBENCH_BACKEND", spec.backend},
                                            {"DPBENCH_DEVICE", name_of(spec.device)},
                                            {"DPBENCH_THREADS", threads},
                                            {"DPBENCH_RUNTIME", name_of(spec.runtime)},
                                            {"DPBENCH_TIMEOUT_S", std::to_string(timeout)},
                                            {"DPBENCH_PLUGINS", join(plugins, ":")},
                                            {"DPBENCH_PROGRESS", page.file()},
                                            {"DPBENCH_CORES", cores},
                                            {"OMP_NUM_THREADS", threads}};
  // OpenMP threads that wait for work spin for about 20 us, then sleep, so that they do not keep cores from other
  // ranks.
  if (!std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT")) all["GOMP_SPINCOUNT"] = "10000";
  if (!seat.master.empty()) all["MASTER_ADDR"] = seat.master;
  // If all ranks are on one host, restrict Gloo and NCCL to the loopback interface, unless the user has set
  // GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME.
  if (seat.local_world < seat.world) return all;
  for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
    if (!std::getenv(name)) all[name] = "lo";
  return all;
}

bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && (text[name_end + 2] == 'T' || text[name_end + 2] == 't');
}

// Process ids of the children that this process started and has not reaped: ranks of all groups, orphan reapers and
// relay processes.
std::set<pid_t>& known_children() {
  static std::set<pid_t> pids;
  return pids;
}

// Returns the children that this process adopted but did not start: orphans of dead ranks.
std::vector<pid_t> adopted() {
  std::ifstream file("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  std::vector<pid_t> pids;
  for (pid_t pid; file >> pid;)
    if (!known_children().contains(pid)) pids.push_back(pid);
  return pids;
}

}  // namespace

void register_child(pid_t pid) { known_children().insert(pid); }

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

WorkerGroup::WorkerGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch,
                         const std::optional<Seat>& seat)
    : spec_(spec),
      output_(settings.output),
      mark_(random_hex()),
      reaper_(std::string(reaper_variable) + "=" + mark_),
      logs_(settings.logs / spec.name),
      page_(scratch.path() / "progress", spec.processes),
      ranks_(seat ? 1 : static_cast<size_t>(spec.processes)) {
  register_child(reaper_.pid());
  spec_.nonce = seat ? seat->nonce : random_hex();
  std::error_code failed;
  fs::create_directories(logs_, failed);
  // On a full disk, write the ranks' logs to the scratch directory. The full disk is reported when saving the report
  // fails too.
  if (failed == std::errc::no_space_on_device) {
    logs_ = scratch.path() / "logs" / spec.name;
    fs::create_directories(logs_, failed);
  }
  if (failed) throw UsageError("cannot create " + logs_.string() + ": " + failed.message());
  try {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].number = seat ? seat->rank : static_cast<int>(i);
      start(ranks_[i], settings, scratch, seat);
    }
  } catch (...) {
    signal_all(SIGKILL);
    await_deaths(kill_seconds, nullptr);
    throw;
  }
}

WorkerGroup::~WorkerGroup() {
  signal_all(SIGKILL);
  await_deaths(kill_seconds, nullptr);
  kill_adopted();
  pass_output_on();
  known_children().erase(reaper_.pid());
  for (const Rank& rank : ranks_) rank.log.tidy();
  std::error_code ignored;
  fs::remove(logs_, ignored);  // removes the log directory only if it is empty
}

void WorkerGroup::start(Rank& rank, const WorkerSettings& settings, const Scratch& scratch,
                        const std::optional<Seat>& given) {
  const Seat seat = given ? *given : local_seat(rank.number, spec_, scratch);
  rank.dead = true;  // the rank counts as dead until spawn() succeeds
  rank.log = RankLog(logs_, rank.number);
  const Fd log = rank.log.open();
  std::array<int, 2> pair{};
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0, "socketpair failed");
  rank.socket = Fd(pair[0]);
  const Fd theirs(pair[1]);
  rank.child = spawn({.path = spec_.python ? settings.python.interpreter : settings.program,
                      .arguments = spec_.python ? settings.python.arguments : std::vector<std::string>(),
                      .variables = variables_of(seat, spec_, settings, page_, mark_),
                      .cpus = share(settings.cpus, seat.local_rank, seat.local_world),
                      .output = log.get(),
                      .errors = log.get(),
                      .channel = theirs.get()});
  rank.oom_kills = OomKills(rank.child.pid);
  rank.dead = false;
  known_children().insert(rank.child.pid);
}

void WorkerGroup::send(const Json& message) {
  const std::string line = message.dump() + "\n";
  for (auto& rank : ranks_) {
    rank.oom_kills.reset();  // report only out-of-memory kills from here on: a new case begins
    // Sending a message to a rank does not block: a message always fits into an empty socket buffer. If the buffer is
    // full, the rank is dead or stuck, which is detected elsewhere.
    [[maybe_unused]] const auto sent = ::send(rank.socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

bool WorkerGroup::wait(RankEvents& events, const Signals& signals, int milliseconds, int extra) {
  std::vector<pollfd> polled = {{signals.descriptor(), POLLIN, 0}, {extra, POLLIN, 0}};
  constexpr size_t first_rank = 2;
  std::vector<Rank*> polled_ranks;
  for (Rank& rank : ranks_) {
    if (rank.dead) continue;
    polled.push_back({rank.socket.get(), POLLIN, 0});
    polled.push_back({rank.child.pidfd.get(), POLLIN, 0});
    polled_ranks.push_back(&rank);
  }
  if (::poll(polled.data(), polled.size(), milliseconds) > 0) {
    for (size_t i = 0; i < polled_ranks.size(); ++i)
      if (polled[first_rank + 2 * i].revents) read_socket(*polled_ranks[i], events);
    watch_states(events);
    for (size_t i = 0; i < polled_ranks.size(); ++i)
      if (polled[first_rank + 1 + 2 * i].revents) {
        read_socket(*polled_ranks[i], events);  // read the dead rank's last messages
        reap(*polled_ranks[i]);
        const bool killed = WIFSIGNALED(polled_ranks[i]->status) && WTERMSIG(polled_ranks[i]->status) == SIGKILL;
        events.on_death(polled_ranks[i]->number, polled_ranks[i]->status, monotonic_seconds(),
                        killed ? polled_ranks[i]->oom_kills.reason() : "");
      }
  } else {
    watch_states(events);
  }
  pass_output_on();
  return (polled[0].revents & POLLIN) != 0;
}

void WorkerGroup::read_socket(Rank& rank, RankEvents& events) {
  std::array<char, 65536> buffer;
  // Bound the number of reads, so that a rank that sends without end cannot starve the other ranks.
  for (int turn = 0; turn < 256; ++turn) {
    const ssize_t got = ::recv(rank.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) break;
    rank.unread.append(buffer.data(), static_cast<size_t>(got));
  }
  size_t begin = 0;
  for (size_t end; (end = rank.unread.find('\n', begin)) != std::string::npos; begin = end + 1)
    events.on_line(rank.number, rank.unread.substr(begin, end - begin), monotonic_seconds());
  rank.unread.erase(0, begin);
  if (rank.unread.size() <= max_line_bytes) return;
  rank.unread.clear();
  events.on_offence(rank.number, "sent a line of more than 64 MiB", monotonic_seconds());
}

void WorkerGroup::watch_states(RankEvents& events) {
  std::vector<RankState> states;
  for (const Rank& rank : ranks_) states.push_back(page_.read(rank.number));
  const auto same = [](const RankState& a, const RankState& b) { return a.step == b.step && a.beat == b.beat; };
  const bool quiet = std::equal(states.begin(), states.end(), states_.begin(), states_.end(), same);
  for (size_t i = 0; quiet && i < ranks_.size(); ++i)
    states[i].stopped = !ranks_[i].dead && is_stopped(ranks_[i].child.pid);
  states_ = states;
  events.on_states(states, monotonic_seconds());
  for (const Rank& rank : ranks_)
    if (rank.log.flooded())
      events.on_offence(rank.number, "printed more than 64 MiB, see its log", monotonic_seconds());
}

void WorkerGroup::pass_output_on() {
  if (!output_) return;
  for (Rank& rank : ranks_)
    for (const std::string& line : rank.log.new_lines(rank.dead))
      output_(spec_.processes > 1 ? "rank " + std::to_string(rank.number) + ": " + line : line);
}

void WorkerGroup::reap(Rank& rank) {
  // Kill the children in the dead rank's process group too, before waitpid(): until then, the group's id cannot be
  // reused.
  ::kill(-rank.child.pid, SIGKILL);
  ::waitpid(rank.child.pid, &rank.status, 0);
  rank.dead = true;
  known_children().erase(rank.child.pid);
}

bool WorkerGroup::all_dead() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.dead; });
}

bool WorkerGroup::await_deaths(double seconds, const Signals* signals) {
  const double until = monotonic_seconds() + seconds;
  while (!all_dead()) {
    std::vector<pollfd> polled = {{signals ? signals->descriptor() : -1, POLLIN, 0}};
    std::vector<Rank*> polled_ranks;
    for (Rank& rank : ranks_)
      if (!rank.dead) polled.push_back({rank.child.pidfd.get(), POLLIN, 0}), polled_ranks.push_back(&rank);
    const double left = until - monotonic_seconds();
    if (left <= 0 || ::poll(polled.data(), polled.size(), static_cast<int>(left * 1000) + 1) < 0) return false;
    for (size_t i = 0; i < polled_ranks.size(); ++i)
      if (polled[1 + i].revents) reap(*polled_ranks[i]);
    if (polled[0].revents) return all_dead();
  }
  return true;
}

void WorkerGroup::signal_all(int signal) {
  for (const auto& rank : ranks_)
    if (!rank.dead) ::kill(-rank.child.pid, signal);
}

std::vector<std::string> WorkerGroup::quit(const Signals& signals) {
  send({{"do", "quit"}});
  const bool left = await_deaths(quit_seconds + quit_seconds_per_rank * spec_.processes, &signals);
  std::vector<std::string> still_running, complaints;
  for (const Rank& rank : ranks_) {
    const std::string number = std::to_string(rank.number);
    if (!rank.dead)
      still_running.push_back(number);
    else if (rank.status != 0)
      complaints.push_back("rank " + number + " ended with " + describe_exit(rank.status) + " after its last case");
  }
  if (!still_running.empty()) complaints.push_back("rank " + join(still_running) + " did not quit when asked to");
  if (!left) kill(signals);
  return complaints;
}

void WorkerGroup::kill(const Signals& signals) {
  signal_all(SIGTERM);
  if (await_deaths(term_seconds, &signals)) return;
  signal_all(SIGKILL);
  await_deaths(kill_seconds, nullptr);
}

void WorkerGroup::kill_adopted() {
  const double until = monotonic_seconds() + kill_seconds;
  for (auto left = adopted(); !left.empty() && monotonic_seconds() < until; left = adopted()) {
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    for (const pid_t pid : left) ::waitpid(pid, nullptr, WNOHANG);
    ::poll(nullptr, 0, 2);
  }
}

std::string WorkerGroup::log_tail(int rank) const {
  return ranks_[ranks_.size() == 1 ? 0 : static_cast<size_t>(rank)].log.tail();
}

}  // namespace dpbench
