#include "harness/worker/relay.h"

#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "harness/conform/evidence/exception_text.h"
#include "harness/report/text/first_line.h"
#include "harness/worker/rank/channel.h"
#include "harness/worker/rank/meeting.h"
#include "harness/worker/rank/variables.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

std::string box_of(int rank, int64_t number) { return "box/" + std::to_string(rank) + "/" + std::to_string(number); }

void put_into(c10d::Store& store, int rank, const std::string& text) {
  const int64_t number = store.add("count/" + std::to_string(rank), 1);
  store.set(box_of(rank, number), std::vector<uint8_t>(text.begin(), text.end()));
}

// Waits for one message after the other, for ever: whoever ends the front ends this too.
void receive(c10d::Store& store, int rank, Channel& channel) {
  constexpr std::chrono::hours for_ever{24 * 365};
  for (int64_t number = 1;; ++number) {
    const std::string key = box_of(rank, number);
    store.wait({key}, for_ever);
    const auto bytes = store.get(key);
    store.deleteKey(key);
    channel.send({{"message", parse_json(std::string(bytes.begin(), bytes.end()), "a message of another front")}});
  }
}

// Two that take the same messages would each get half of them.
void take_seat(c10d::Store& store, int rank) {
  if (store.add("seat/" + std::to_string(rank), 1) == 1) return;
  throw UsageError("RANK=" + std::to_string(rank) +
                   ": another process has been this rank of the launch; each rank is one process, and a "
                   "launch runs dpbench once");
}

[[noreturn]] void lose(Channel& channel, const std::string& why, int code) {
  try {
    channel.send({{"lost", why}, {"usage", code == 2}});
  } catch (const std::exception&) {
    // the front is gone as well
  }
  _exit(code);  // the other thread may be waiting inside the store
}

}  // namespace

int relay() {
  const Variables variables = read_variables();
  Channel channel(variables.channel);
  try {
    const Meeting& meeting = variables.meeting;
    [[maybe_unused]] const auto served = variables.serves ? serve_meeting(meeting) : c10::intrusive_ptr<c10d::Store>();
    // One connection for each direction: a client that waits holds its own.
    const auto sending = join_meeting(meeting, variables.timeout), receiving = join_meeting(meeting, variables.timeout);
    take_seat(*sending, variables.rank);
    channel.send({{"up", true}});
    std::jthread receiver([&] {
      try {
        receive(*receiving, variables.rank, channel);
      } catch (const std::exception& error) {
        lose(channel, first_line(message_of(error)), 3);
      }
    });
    while (const auto order = channel.receive())
      put_into(*sending, order->at("to").get<int>(), order->at("message").dump());
    _exit(0);
  } catch (const UsageError& error) {
    lose(channel, error.what(), 2);
  } catch (const std::exception& error) {
    lose(channel, first_line(message_of(error)), 3);
  }
}

}  // namespace dpbench
