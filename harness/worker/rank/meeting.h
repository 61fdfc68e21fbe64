// The stores in which the ranks of a launch meet: a file where dpbench started them, a TCPStore served by rank 0's
// relay or by the launcher's agent where others did.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dpbench {

// For the ranks of one host; polls more often than c10d's own.
c10::intrusive_ptr<c10d::Store> file_store(const std::string& file, int ranks);

struct Meeting {
  std::string host;
  int port = 0;
  std::string nonce;  // before every key: another run's ranks never take part in this one
};

// "host:port" and a nonce, as the front gives them (DPBENCH_STORE, DPBENCH_NONCE); an empty host: there is no meeting.
Meeting meeting_of(const std::string& address, const std::string& nonce);

// Tries until the time is over; the message then says who did not answer.
c10::intrusive_ptr<c10d::Store> join_meeting(const Meeting& meeting, std::chrono::milliseconds timeout);

// Serves it at the meeting's own address, no other, for as long as what it returns lives.
c10::intrusive_ptr<c10d::Store> serve_meeting(const Meeting& meeting);

}  // namespace dpbench
