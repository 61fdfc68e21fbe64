#include "strategies/comm/shm/messages.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <c10/util/StringUtil.h>

namespace dpbench::shm {

Messages::~Messages() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  group_.ring(group_.rank());
  if (thread_.joinable()) thread_.join();
}

Messages::WorkPtr Messages::send(const at::Tensor& tensor, int to, int tag, std::chrono::milliseconds timeout) {
  return post(sends_, c10d::OpType::SEND, tensor, to, tag, timeout);
}

Messages::WorkPtr Messages::recv(const at::Tensor& tensor, int from, int tag, std::chrono::milliseconds timeout) {
  return post(receives_, c10d::OpType::RECV, tensor, from, tag, timeout);
}

Messages::WorkPtr Messages::post(List& list, c10d::OpType type, const at::Tensor& tensor, int peer, int tag,
                                 std::chrono::milliseconds timeout) {
  if (peer < 0 || peer >= group_.world() || peer == group_.rank())
    throw std::invalid_argument(c10::str("shm: rank ", group_.rank(), " cannot send to or receive from rank ", peer));
  if (!tensor.is_cpu() || !tensor.is_contiguous())
    throw std::invalid_argument("shm: sends and receives contiguous CPU tensors only");
  const Letter letter{tag, static_cast<int8_t>(tensor.scalar_type()), tensor.numel(), tensor.nbytes()};
  const std::lock_guard lock(mutex_);
  auto work = c10::make_intrusive<CommWork>(group_.rank(), type, ++posted_, std::vector<at::Tensor>{tensor});
  list.push_back({tensor, peer, letter, Clock::now() + timeout, work});
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  changed_.notify_one();
  group_.ring(group_.rank());
  return work;
}

void Messages::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !sends_.empty() || !receives_.empty(); });
    if (stop_) return fail_all(std::make_exception_ptr(std::runtime_error("the backend was destroyed")));
    const uint32_t bell = group_.bell();
    try {
      if (move_all()) continue;
      require_peers();
    } catch (const std::exception& error) {
      break_group(error.what());
      fail_all(std::current_exception());
      continue;
    }
    lock.unlock();
    group_.wait_for_bell(bell);
    lock.lock();
  }
}

// Moves all chunks of messages that can be moved without waiting. Returns false if no chunk was moved.
bool Messages::move_all() {
  bool moved = take_early();
  for (int r = 0; r < group_.world(); ++r)
    if (r != group_.rank()) {
      moved = move_out(r) || moved;
      moved = move_in(r) || moved;
    }
  return moved;
}

bool Messages::move_out(int to) {
  const auto first = std::find_if(sends_.begin(), sends_.end(), [to](const Message& one) { return one.peer == to; });
  Mailbox& box = group_.mailbox(group_.rank(), to);
  if (first == sends_.end() || box.written.load() != box.read.load(std::memory_order_acquire)) return false;
  const bool lends =
      group_.home() == Home::processes && first->letter.bytes > sizeof box.chunk && box.refused.load() == 0;
  if (first->posted && first->lent == lends) {
    finish(sends_, first);
    return true;
  }
  const auto* const data = static_cast<const char*>(first->tensor.const_data_ptr());
  box.letter = first->letter;
  box.address = lends ? data : nullptr;
  if (lends) {
    first->posted = true;
  } else {
    const size_t bytes = std::min(first->letter.bytes - first->moved, sizeof box.chunk);
    std::memcpy(box.chunk, data + first->moved, bytes);
    first->moved += bytes;
    first->posted = first->moved == first->letter.bytes;
  }
  first->lent = lends;
  box.written.fetch_add(1, std::memory_order_release);
  group_.ring(to);
  return true;
}

bool Messages::move_in(int from) {
  Mailbox& box = group_.mailbox(from, group_.rank());
  Arriving& arriving = arriving_[from];
  const bool asked = std::any_of(receives_.begin(), receives_.end(), [&](const Message& m) { return m.peer == from; });
  if ((!asked && !arriving.begun) || box.written.load(std::memory_order_acquire) == box.read.load()) return false;
  const Letter letter = box.letter;
  if (!arriving.begun) {
    arriving = {.begun = true, .moved = 0, .taker = {}, .aside = false, .early = {}};
    arriving.taker = std::find_if(receives_.begin(), receives_.end(),
                                  [&](const Message& one) { return one.peer == from && one.letter.tag == letter.tag; });
    arriving.aside = arriving.taker == receives_.end();
    if (arriving.aside)
      arriving.early = {letter, std::vector<char>(letter.bytes)};
    else
      require_same_size(*arriving.taker, letter);
  }
  char* const target =
      arriving.aside ? arriving.early.bytes.data() : static_cast<char*>(arriving.taker->tensor.mutable_data_ptr());
  const std::optional<size_t> bytes = take(from, letter, arriving.moved, target);
  if (!bytes) return false;
  arriving.moved += *bytes;
  box.read.fetch_add(1, std::memory_order_release);
  group_.ring(from);
  if (arriving.moved < letter.bytes) return true;
  arriving.begun = false;
  if (arriving.aside)
    early_[from].push_back(std::move(arriving.early));
  else
    finish(receives_, arriving.taker);
  return true;
}

// Copies the next chunk of a message from the mailbox, or the whole message from the sender's memory. Returns the
// number of bytes. Returns 0 if the sender's memory cannot be read; the sender then sends chunks. Returns nullopt if
// the sender has left or died.
std::optional<size_t> Messages::take(int from, const Letter& letter, size_t moved, char* target) {
  Mailbox& box = group_.mailbox(from, group_.rank());
  if (!box.address) {
    const size_t bytes = std::min(letter.bytes - moved, sizeof box.chunk);
    if (bytes > 0) std::memcpy(target + moved, box.chunk, bytes);
    return bytes;
  }
  const bool copied = copy_from_process(group_.pid(from), box.address, target, letter.bytes);
  // A sender that fails or leaves marks the group before it releases its tensor. If the group is sound and the sender
  // still in it after the copy, the copied bytes are valid.
  group_.require_sound();
  if (!group_.how_gone(from).empty()) return std::nullopt;
  if (!copied) box.refused.store(1);
  return copied ? letter.bytes : 0;
}

// Gives one message that arrived before its recv to the first recv that waits for the same sender and tag. Returns
// false if there is no such pair.
bool Messages::take_early() {
  for (auto taker = receives_.begin(); taker != receives_.end(); ++taker) {
    auto& early = early_[taker->peer];
    const auto found =
        std::find_if(early.begin(), early.end(), [&](const Early& one) { return one.letter.tag == taker->letter.tag; });
    if (found == early.end()) continue;
    require_same_size(*taker, found->letter);
    if (!found->bytes.empty()) std::memcpy(taker->tensor.mutable_data_ptr(), found->bytes.data(), found->bytes.size());
    early.erase(found);
    finish(receives_, taker);
    return true;
  }
  return false;
}

void Messages::require_same_size(const Message& taker, const Letter& letter) {
  if (taker.letter == letter) return;
  group_.fail(c10::str("ranks do not make the same call: ", group_.name_of(taker.peer), " sent ", letter.count, " ",
                       static_cast<c10::ScalarType>(letter.dtype), ", ", group_.name_of(group_.rank()), " called ",
                       describe(taker)));
}

// Throws if the sender or receiver of a pending message has left or died, or if a message has timed out. Does not throw
// if some chunk can still be moved, so messages that a rank completed before it left are delivered.
void Messages::require_peers() {
  group_.require_sound();
  for (const List* list : {&sends_, &receives_})
    for (const Message& message : *list) {
      const std::string gone = group_.how_gone(message.peer), waited = describe(message);
      if (gone.empty() && Clock::now() < message.deadline) continue;
      if (move_all()) return;
      const std::string me = group_.name_of(group_.rank()), peer = group_.name_of(message.peer);
      group_.fail(gone.empty() ? me + " timed out waiting for " + peer + " in " + waited
                               : peer + " " + gone + " while " + me + " waited in " + waited);
    }
}

// Marks the group as broken before fail_all() releases the tensors of pending messages, because other ranks may be
// reading these tensors.
void Messages::break_group(const std::string& reason) {
  try {
    group_.fail(reason);
  } catch (const std::exception&) {
    // HostGroup::fail() always throws. The exception is not needed here, because the caller reports the reason itself.
  }
}

void Messages::fail_all(std::exception_ptr error) {
  for (List* list : {&sends_, &receives_}) {
    for (const Message& message : *list) message.work->fail(error);
    list->clear();
  }
  arriving_.clear();
}

std::string Messages::describe(const Message& message) const {
  const bool sends = message.work->retrieveOpType() == c10d::OpType::SEND;
  return c10::str(sends ? "send of " : "recv of ", message.letter.count, " ",
                  static_cast<c10::ScalarType>(message.letter.dtype), sends ? " to " : " from ",
                  group_.name_of(message.peer), ", tag ", message.letter.tag);
}

void Messages::finish(List& list, List::iterator message) {
  const WorkPtr work = message->work;
  list.erase(message);
  work->succeed();
}

}  // namespace dpbench::shm
