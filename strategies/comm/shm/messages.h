// Messages between two ranks of a group: send and recv with a tag. One mailbox for each ordered pair of ranks carries
// one chunk of a message at a time, and a thread moves the chunks of all messages of this rank in both directions. The
// receiver copies a message of several chunks out of the sender's tensor instead, if the kernel lets it read the memory
// of the sender's process.
//
// A send ends when its receiver has taken the message. Messages that no recv has asked for yet are kept aside if the
// receiver waits for another tag of the same sender.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/comm/base/comm_work.h"
#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

class Messages {
 public:
  using WorkPtr = c10::intrusive_ptr<CommWork>;

  explicit Messages(HostGroup& group) : group_(group) {}
  ~Messages();

  WorkPtr send(const at::Tensor& tensor, int to, int tag, std::chrono::milliseconds timeout);
  WorkPtr recv(const at::Tensor& tensor, int from, int tag, std::chrono::milliseconds timeout);

 private:
  struct Message {
    at::Tensor tensor;
    int peer;
    Letter letter;
    Clock::time_point deadline;
    WorkPtr work;
    size_t moved = 0;     // bytes of the message moved so far
    bool posted = false;  // true if a send has put its last chunk, or its address, into the mailbox
    bool lent = false;    // true if the receiver reads this send's tensor directly, instead of chunks
  };
  using List = std::list<Message>;
  // A message that has arrived before its recv.
  struct Early {
    Letter letter;
    std::vector<char> bytes;
  };
  // The message that is arriving from a rank. Its chunks go to a recv, or to a buffer if no recv waits for the message
  // yet.
  struct Arriving {
    bool begun = false;
    size_t moved = 0;
    List::iterator taker;
    bool aside = false;
    Early early;
  };

  WorkPtr post(List& list, c10d::OpType type, const at::Tensor& tensor, int peer, int tag,
               std::chrono::milliseconds timeout);
  void serve();
  bool move_all();
  bool move_out(int to);
  bool move_in(int from);
  std::optional<size_t> take(int from, const Letter& letter, size_t moved, char* target);
  bool take_early();
  void require_same_size(const Message& taker, const Letter& letter);
  void require_peers();
  void break_group(const std::string& reason);
  void fail_all(std::exception_ptr error);
  std::string describe(const Message& message) const;
  static void finish(List& list, List::iterator message);

  HostGroup& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  List sends_, receives_;
  std::map<int, std::list<Early>> early_;  // messages that arrived before their recv, by sender
  std::map<int, Arriving> arriving_;       // messages that are arriving, by sender
  uint64_t posted_ = 0;
  bool stop_ = false;
  std::thread thread_;  // the thread that moves chunks; starts with the first message
};

}  // namespace dpbench::shm
