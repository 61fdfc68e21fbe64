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
#include "harness/worker/rank/rendezvous.h"
#include "harness/worker/rank/variables.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

std::string message_key(int rank, int64_t number) {
  return "box/" + std::to_string(rank) + "/" + std::to_string(number);
}

void send_to(c10d::Store& store, int rank, const std::string& text) {
  const int64_t number = store.add("count/" + std::to_string(rank), 1);
  store.set(message_key(rank, number), std::vector<uint8_t>(text.begin(), text.end()));
}

// Forwards messages from the rendezvous store to the front (the dpbench process). Runs until this process is killed,
// which the kernel does when the front dies.
void receive(c10d::Store& store, int rank, Channel& channel) {
  constexpr std::chrono::hours forever{24 * 365};
  for (int64_t number = 1;; ++number) {
    const std::string key = message_key(rank, number);
    store.wait({key}, forever);
    const auto bytes = store.get(key);
    store.deleteKey(key);
    channel.send({{"message", parse_json(std::string(bytes.begin(), bytes.end()), "a message of another front")}});
  }
}

// Throws UsageError if another process already has this rank: each of the two would receive only some of the rank's
// messages.
void claim_rank(c10d::Store& store, int rank) {
  if (store.add("seat/" + std::to_string(rank), 1) == 1) return;
  throw UsageError(
      "RANK=" + std::to_string(rank) +
      ": another process of this launch already has this rank. Start one process per rank, and run dpbench "
      "once per launch.");
}

[[noreturn]] void report_loss(Channel& channel, const std::string& why, int code) {
  try {
    channel.send({{"lost", why}, {"usage", code == 2}});
  } catch (const std::exception&) {
    // Ignore the error: the front (the dpbench process) has exited and cannot receive the message.
  }
  _exit(code);  // _exit() skips static destructors, because the other thread may be blocked inside the store
}

}  // namespace

int relay() {
  const Variables variables = read_variables();
  Channel channel(variables.channel);
  try {
    const Rendezvous& rendezvous = variables.rendezvous;
    [[maybe_unused]] const auto served =
        variables.serves ? serve_rendezvous(rendezvous) : c10::intrusive_ptr<c10d::Store>();
    // Open two connections to the store, one to send and one to receive, because waiting for a key blocks a connection.
    const auto sending = join_rendezvous(rendezvous, variables.timeout),
               receiving = join_rendezvous(rendezvous, variables.timeout);
    claim_rank(*sending, variables.rank);
    channel.send({{"up", true}});
    std::jthread receiver([&] {
      try {
        receive(*receiving, variables.rank, channel);
      } catch (const std::exception& error) {
        report_loss(channel, first_line(message_of(error)), 3);
      }
    });
    while (const auto order = channel.receive())
      send_to(*sending, order->at("to").get<int>(), order->at("message").dump());
    _exit(0);
  } catch (const UsageError& error) {
    report_loss(channel, error.what(), 2);
  } catch (const std::exception& error) {
    report_loss(channel, first_line(message_of(error)), 3);
  }
}

}  // namespace dpbench
