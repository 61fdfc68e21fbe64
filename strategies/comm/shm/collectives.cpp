#include "strategies/comm/shm/collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace dpbench::shm {
namespace {

// Up to this size in bytes, each rank reduces the whole array in an allreduce. The alternative, a piece per rank, needs
// a second barrier, which takes longer.
constexpr size_t reduced_by_all = 16 << 10;
constexpr size_t cache_line = 64;
// Copies below this size in bytes use ordinary stores: streaming stores are faster only for large copies.
constexpr size_t streamed_bytes = 4096;
constexpr size_t word_bytes = 16;

// Returns true for collectives in which a rank sends different data to each rank.
bool per_rank(Kind kind) { return kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::alltoall; }

// Copies data that another core will read, with streaming stores, which bypass the caches. An ordinary store must first
// take the cache line back from the core that last read it, which took up to four times as long on the CPUs measured.
// The data is visible to threads that observe a later atomic store.
void copy_for_peers(char* to, const char* from, size_t bytes) {
#ifdef __SSE2__
  if (bytes >= streamed_bytes && reinterpret_cast<uintptr_t>(to) % word_bytes == 0) {
    const size_t whole = bytes / word_bytes * word_bytes;
    for (size_t i = 0; i < whole; i += word_bytes) {
      const auto word = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), word);
    }
    std::memcpy(to + whole, from + whole, bytes - whole);
    return _mm_sfence();
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace

// Returns true if each rank publishes its data in its slot (its buffer in shared memory), waits at a barrier and reads
// the other ranks' slots. This holds for all calls except a large allreduce, in which each rank reduces one piece of
// the array.
bool Collectives::uses_exchange(const Job& job) const {
  return job.call.kind != Kind::allreduce || job.bytes() <= reduced_by_all;
}

void Collectives::begin(const Job& job) {
  ++turn_;
  if (uses_exchange(job)) {
    group_.announce(job.call);
    publish(job, chunk_at(job, 0, chunk_elements(job)));
  } else {
    place_ = find_place(job.reduced, job.bytes());
    group_.announce(job.call, place_);
    copy_in(job, chunk_at(job, 0, chunk_elements(job)));
  }
  group_.arrive();
}

void Collectives::finish(const Job& job, Clock::time_point deadline) {
  group_.wait(deadline);
  group_.require_agreement();
  uses_exchange(job) ? exchange(job, deadline) : reduce_in_pieces(job, deadline);
}

size_t Collectives::chunk_elements(const Job& job) const {
  const size_t lanes = per_rank(job.call.kind) ? group_.world() : 1;
  return group_.slot_bytes() / lanes / cache_line * cache_line / job.item;
}

Collectives::Chunk Collectives::chunk_at(const Job& job, size_t begin, size_t elements) const {
  return {begin, std::min<size_t>(elements, job.call.count - begin)};
}

// Returns the piece of an array that a rank reduces in a large allreduce. Pieces start on cache lines, so that two
// ranks never write to the same line.
Collectives::Chunk Collectives::piece(size_t count, size_t item, int rank) const {
  const size_t line = std::max<size_t>(1, cache_line / item);
  const size_t share = (count + group_.world() * line - 1) / (group_.world() * line) * line;
  const size_t begin = std::min(count, share * rank);
  return {begin, std::min(share, count - begin)};
}

void Collectives::publish(const Job& job, Chunk chunk) {
  if (chunk.count == 0) return;
  const size_t lane_bytes = chunk_elements(job) * job.item;
  for (size_t lane = 0; lane < job.sends.size(); ++lane) {
    if (per_rank(job.call.kind) && static_cast<int>(lane) == group_.rank()) continue;
    char* const to = group_.slot(group_.rank(), turn_) + lane * lane_bytes;
    copy_for_peers(to, job.sends[lane] + chunk.begin * job.item, chunk.count * job.item);
  }
}

void Collectives::consume(const Job& job, Chunk chunk) {
  if (chunk.count == 0) return;
  const size_t lane = per_rank(job.call.kind) ? group_.rank() : 0, lane_bytes = chunk_elements(job) * job.item;
  const size_t begin = chunk.begin * job.item, bytes = chunk.count * job.item;
  const auto sent_by = [&](int rank) -> const void* {
    return rank == group_.rank() ? job.sends[lane] + begin : group_.slot(rank, turn_) + lane * lane_bytes;
  };
  if (job.reduced) {
    std::vector<const void*> sources(group_.world());
    for (int r = 0; r < group_.world(); ++r) sources[r] = sent_by(r);
    void* target = job.reduced + begin;
    job.reduce(sources.data(), group_.world(), &target, 1, chunk.count);
  }
  for (int r = 0; r < static_cast<int>(job.receives.size()); ++r)
    if (job.receives[r]) std::memmove(job.receives[r] + begin, sent_by(r), bytes);
}

void Collectives::exchange(const Job& job, Clock::time_point deadline) {
  const size_t elements = chunk_elements(job), count = job.call.count;
  consume(job, chunk_at(job, 0, elements));
  for (size_t begin = elements; begin < count; begin += elements) {
    ++turn_;
    publish(job, chunk_at(job, begin, elements));
    group_.meet(deadline);
    consume(job, chunk_at(job, begin, elements));
  }
}

// Copies a chunk of this rank's data to its slot (its buffer in shared memory). Leaves out the piece that this rank
// reduces itself, because no other rank reads it.
void Collectives::copy_in(const Job& job, Chunk chunk) {
  if (place_.block) return;
  char* const slot = group_.slot(group_.rank(), turn_);
  const Chunk mine = piece(chunk.count, job.item, group_.rank());
  const size_t begin = mine.begin * job.item, end = begin + mine.count * job.item;
  const char* const from = job.reduced + chunk.begin * job.item;
  copy_for_peers(slot, from, begin);
  copy_for_peers(slot + end, from + end, chunk.count * job.item - end);
}

void Collectives::reduce_piece(const Job& job, Chunk chunk) {
  const Chunk mine = piece(chunk.count, job.item, group_.rank());
  const size_t in_slot = mine.begin * job.item, in_tensor = (chunk.begin + mine.begin) * job.item;
  std::vector<const void*> sources;
  std::vector<void*> targets{job.reduced + in_tensor};
  bool peer_reads_slot = false;
  for (int r = 0; r < group_.world(); ++r) {
    const bool self = r == group_.rank();
    if (self) {
      sources.push_back(job.reduced + in_tensor);
    } else if (placed_[r]) {
      sources.push_back(placed_[r] + in_tensor);
      targets.push_back(placed_[r] + in_tensor);
    } else {
      sources.push_back(group_.slot(r, turn_) + in_slot);
      peer_reads_slot = true;
    }
  }
  job.reduce(sources.data(), group_.world(), targets.data(), static_cast<int>(targets.size()), mine.count);
  if (peer_reads_slot)
    copy_for_peers(group_.slot(group_.rank(), turn_) + in_slot, job.reduced + in_tensor, mine.count * job.item);
}

void Collectives::copy_out(const Job& job, Chunk chunk) {
  if (place_.block) return;
  char* const to = job.reduced + chunk.begin * job.item;
  for (int r = 0; r < group_.world(); ++r) {
    if (r == group_.rank()) continue;
    const Chunk theirs = piece(chunk.count, job.item, r);
    const size_t begin = theirs.begin * job.item;
    std::memcpy(to + begin, group_.slot(r, turn_) + begin, theirs.count * job.item);
  }
}

void Collectives::reduce_in_pieces(const Job& job, Clock::time_point deadline) {
  placed_.assign(group_.world(), nullptr);
  bool all_placed = true;
  for (int r = 0; r < group_.world(); ++r) {
    const Place& place = group_.announced(r).place;
    if (place.block) placed_[r] = r == group_.rank() ? job.reduced : blocks_.view(group_, r, place);
    all_placed = all_placed && place.block;
  }
  const size_t count = job.call.count, elements = all_placed ? count : chunk_elements(job);
  for (size_t begin = 0; begin < count; begin += elements) {
    const Chunk chunk = chunk_at(job, begin, elements);
    if (begin > 0) {
      ++turn_;
      copy_in(job, chunk);
      group_.meet(deadline);
    }
    reduce_piece(job, chunk);
    group_.meet(deadline);
    copy_out(job, chunk);
  }
}

}  // namespace dpbench::shm
