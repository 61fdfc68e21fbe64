#include "harness/worker/prompt_store.h"

#include <algorithm>
#include <thread>

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds first_pause(50), longest_pause(2000);

}  // namespace

std::vector<uint8_t> PromptStore::get(const std::string& key) {
  wait({key});
  return FileStore::get(key);
}

void PromptStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void PromptStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  const auto begin = Clock::now();
  const auto in_time = [&] { return timeout == kNoTimeout || Clock::now() - begin < timeout; };
  for (auto pause = first_pause; !check(keys) && in_time(); pause = std::min(2 * pause, longest_pause))
    std::this_thread::sleep_for(pause);
  FileStore::wait(keys, std::chrono::milliseconds(1));  // what is not there by now is its to complain of, in its own words
}

}  // namespace dpbench
