#include "harness/worker/prompt_store.h"

#include <algorithm>
#include <thread>

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds first_pause(50), longest_pause(2000);

}  // namespace

void PromptStore::look_for(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  const auto begin = Clock::now();
  for (auto pause = first_pause; !check(keys) && Clock::now() - begin < timeout; pause = std::min(2 * pause, longest_pause))
    std::this_thread::sleep_for(pause);
}

// What is not there by then is the parent's to complain of, in its own words.
std::vector<uint8_t> PromptStore::get(const std::string& key) {
  look_for({key}, timeout_);
  return FileStore::get(key);
}

void PromptStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void PromptStore::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  look_for(keys, timeout);
  FileStore::wait(keys, std::chrono::milliseconds(1));
}

}  // namespace dpbench
