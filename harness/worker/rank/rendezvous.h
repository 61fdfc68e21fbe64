// Rendezvous stores. Ranks started by dpbench use a file; ranks of an external launcher use a TCPStore served by rank
// 0's relay or by the launcher's agent.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dpbench {

// A file store for the ranks of one host. Polls more often than c10d's FileStore.
c10::intrusive_ptr<c10d::Store> file_store(const std::string& file, int ranks);

struct Rendezvous {
  std::string host;
  int port = 0;
  std::string nonce;  // prefix of every key, so ranks of another run cannot join
};

// Parses "host:port" (DPBENCH_STORE); nonce is DPBENCH_NONCE. An empty address returns an empty host: no rendezvous.
Rendezvous parse_rendezvous(const std::string& address, const std::string& nonce);

// Retries until the timeout, then throws an error that names the address.
c10::intrusive_ptr<c10d::Store> join_rendezvous(const Rendezvous& rendezvous, std::chrono::milliseconds timeout);

// Listens on the given address only, for the lifetime of the returned store.
c10::intrusive_ptr<c10d::Store> serve_rendezvous(const Rendezvous& rendezvous);

}  // namespace dpbench
