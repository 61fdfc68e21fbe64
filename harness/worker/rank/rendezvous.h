// Rendezvous stores, through which ranks find each other. Ranks started by dpbench use a file; ranks of an external
// launcher use a TCPStore served by rank 0's relay process or by the launcher's agent.
#pragma once

#include <chrono>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace dpbench {

// Returns a file-based store for the ranks of one host. It polls more often than c10d's FileStore.
c10::intrusive_ptr<c10d::Store> file_store(const std::string& file, int ranks);

struct Rendezvous {
  std::string host;
  int port = 0;
  std::string nonce;  // random prefix of every key, so that ranks of another run cannot join
};

// Parses the address "host:port" of DPBENCH_STORE; nonce is the value of DPBENCH_NONCE. For an empty address the result
// has an empty host, meaning no rendezvous.
Rendezvous parse_rendezvous(const std::string& address, const std::string& nonce);

// Connects to the rendezvous store. Retries until the timeout, then throws an error that names the address.
c10::intrusive_ptr<c10d::Store> join_rendezvous(const Rendezvous& rendezvous, std::chrono::milliseconds timeout);

// Serves the rendezvous store on the given address only, for the lifetime of the returned store.
c10::intrusive_ptr<c10d::Store> serve_rendezvous(const Rendezvous& rendezvous);

}  // namespace dpbench
