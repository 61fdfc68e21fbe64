#include "strategies/comm/notices.h"

#include <thread>

namespace dpbench {
namespace {

constexpr const char* gave_up_key = "gave-up";
constexpr std::chrono::milliseconds notice_pause{5};

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

std::string Notices::give_up(const std::string& reason) noexcept {
  try {
    const auto first = store_->compareSet(gave_up_key, {}, bytes_of(reason));
    return {first.begin(), first.end()};
  } catch (const std::exception&) {
    return reason;  // the store went with its host
  }
}

std::string Notices::reason(Milliseconds within) noexcept {
  const auto end = std::chrono::steady_clock::now() + within;
  try {
    while (!has(gave_up_key)) {
      if (std::chrono::steady_clock::now() >= end) return {};
      std::this_thread::sleep_for(notice_pause);
    }
    return get(gave_up_key);
  } catch (const std::exception&) {
    return {};
  }
}

void Notices::set(const std::string& key, const std::string& value) { store_->set(key, bytes_of(value)); }

bool Notices::wait_for(const std::string& key, Milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!has(key)) {
    if (const std::string why = reason(); !why.empty()) throw std::runtime_error(why);
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(notice_pause);
  }
  return true;
}

}  // namespace dpbench
