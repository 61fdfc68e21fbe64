#include "harness/conform/evidence/exchange.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace dpbench {
namespace {

// Texts above this size are sent through the rendezvous store in chunks, because the store is not designed for larger
// values.
constexpr size_t chunk_bytes = 4 << 20;

void write_chunks(c10d::Store& store, const std::string& key, const std::string& bytes) {
  const size_t chunks = (bytes.size() + chunk_bytes - 1) / chunk_bytes;
  for (size_t i = 0; i < chunks; ++i)
    store.set(key + "/" + std::to_string(i), bytes.substr(i * chunk_bytes, chunk_bytes));
  store.set(key, std::to_string(chunks));  // the number of chunks is set last, because readers wait for it
}

// Reads a text that another rank wrote to the rendezvous store. Waits up to 24 hours for it, because that rank may
// compute expected results for minutes. If a rank hangs, the front (the dpbench process) ends it.
std::string read_chunks(c10d::Store& store, const std::string& key) {
  store.wait({key}, std::chrono::hours(24));
  const size_t chunks = std::stoul(store.get_to_str(key));
  std::string bytes;
  for (size_t i = 0; i < chunks; ++i) bytes += store.get_to_str(key + "/" + std::to_string(i));
  return bytes;
}

std::string packed(const TensorPool& pool) {
  std::string bytes;
  for (const auto& [hash, tensor] : pool) bytes.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  return bytes;
}

std::vector<uint64_t> unpacked(const std::string& bytes) {
  std::vector<uint64_t> hashes(bytes.size() / sizeof(uint64_t));
  std::memcpy(hashes.data(), bytes.data(), bytes.size());
  return hashes;  // the hashes are sorted, because rank 0 packed them in the order of a std::map
}

}  // namespace

std::vector<Evidence> gather_evidence(c10d::Store& store, const std::string& key, int rank, int world,
                                      const Evidence& mine) {
  if (world == 1) return {mine};
  const auto from = [&](int r) { return key + "/" + std::to_string(r); };
  if (rank != 0) {
    write_chunks(store, from(rank), to_bytes(mine, unpacked(read_chunks(store, from(0)))));
    return {};
  }
  const TensorPool pool = pool_of(mine);
  write_chunks(store, from(0), packed(pool));
  std::vector<Evidence> all = {mine};
  for (int r = 1; r < world; ++r) all.push_back(from_bytes(read_chunks(store, from(r)), pool));
  return all;
}

std::vector<std::string> gather_texts(c10d::Store& store, const std::string& key, int rank, int world,
                                      const std::string& mine) {
  const auto from = [&](int r) { return key + "/" + std::to_string(r); };
  write_chunks(store, from(rank), mine);
  std::vector<std::string> all;
  for (int r = 0; r < world && rank == 0; ++r) all.push_back(read_chunks(store, from(r)));
  return all;
}

std::string broadcast_text(c10d::Store& store, const std::string& key, int rank, const std::string& text) {
  if (rank == 0) write_chunks(store, key, text);
  return rank == 0 ? text : read_chunks(store, key);
}

bool broadcast_decision(c10d::Store& store, const std::string& key, int rank, bool mine) {
  return !broadcast_text(store, key, rank, mine ? "yes" : "").empty();
}

}  // namespace dpbench
