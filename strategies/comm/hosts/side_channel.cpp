#include "strategies/comm/hosts/side_channel.h"

#include <exception>
#include <future>
#include <stdexcept>
#include <thread>

namespace dpbench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* gave_up_key = "gave-up";
constexpr std::chrono::milliseconds poll_interval{5};
constexpr std::chrono::seconds answer_timeout{2};

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string reason_in(c10d::Store& store) { return store.check({gave_up_key}) ? store.get_to_str(gave_up_key) : ""; }

}  // namespace

// Queries the store on a separate thread, because a store call has no timeout and a store behind a broken network link
// never answers. Returns nullopt if no answer comes in time. Until the answer comes, further calls return nullopt at
// once. A late answer shows that the store works again.
std::optional<std::string> SideChannel::ask(Question question) {
  if (*silent_) return {};
  auto answer = std::make_shared<std::promise<std::string>>();
  auto future = answer->get_future();
  std::thread([answer, store = store_, silent = silent_, question = std::move(question)] {
    try {
      answer->set_value(question(*store));
    } catch (...) {
      answer->set_exception(std::current_exception());
    }
    *silent = false;
  }).detach();
  try {
    if (future.wait_for(answer_timeout) == std::future_status::ready) return future.get();
  } catch (const std::exception&) {
    return {};  // the query failed, because the store's host is gone
  }
  *silent_ = true;
  // The answer may have come after the timeout but before silent_ was set here. The query's thread has then cleared
  // silent_ too early, and without a second check of the future all later queries would return nullopt.
  if (future.wait_for(Milliseconds{}) == std::future_status::ready) *silent_ = false;
  return {};
}

std::string SideChannel::give_up(const std::string& reason) {
  return ask([reason](c10d::Store& store) {
           const auto first = store.compareSet(gave_up_key, {}, bytes_of(reason));
           return std::string(first.begin(), first.end());
         })
      .value_or(reason);
}

std::string SideChannel::reason(Milliseconds within) {
  const auto end = Clock::now() + within;
  for (;;) {
    const auto why = ask(reason_in);
    if (!why || !why->empty() || Clock::now() >= end) return why.value_or("");
    std::this_thread::sleep_for(poll_interval);
  }
}

bool SideChannel::set_flag(const std::string& key) {
  return ask([key](c10d::Store& store) {
           store.set(key, std::vector<uint8_t>{});
           return std::string();
         })
      .has_value();
}

void SideChannel::clear_flags(const std::vector<std::string>& keys) {
  ask([keys](c10d::Store& store) {
    for (const auto& key : keys) store.deleteKey(key);
    return std::string();
  });
}

std::optional<bool> SideChannel::flag_is_set(const std::string& key) {
  const auto answer = ask([key](c10d::Store& store) { return std::string(store.check({key}) ? "yes" : ""); });
  return answer ? std::optional(!answer->empty()) : std::nullopt;
}

void SideChannel::set(const std::string& key, const std::string& value) { store_->set(key, bytes_of(value)); }

bool SideChannel::wait_for(const std::string& key, Milliseconds limit) {
  const auto end = Clock::now() + limit;
  while (!store_->check({key})) {
    if (const std::string why = reason_in(*store_); !why.empty()) throw std::runtime_error(why);
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(poll_interval);
  }
  return true;
}

}  // namespace dpbench
