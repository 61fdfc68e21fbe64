// Wrong samplers: mistakes in distributing a data set's samples over ranks.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "tests/conformance/wrong_strategies/samplers.h"

namespace dpbench::wrong {
namespace {

constexpr int64_t samples = 100;  // one of the 3 ranks gets 34 samples, the others 33
constexpr int world = 3;

at::Tensor order(int64_t epoch, int64_t rank_of_seed = 0) {
  return at::randperm(samples, at::detail::createCPUGenerator(static_cast<uint64_t>(epoch + 1000 * rank_of_seed)));
}

at::Tensor padded(const at::Tensor& ids) { return at::cat({ids, ids.narrow(0, 0, (world - samples % world) % world)}); }

at::Tensor every_third(const at::Tensor& ids, int rank) { return ids.slice(0, rank, ids.numel(), world).contiguous(); }

}  // namespace

std::vector<WrongSampler> wrong_samplers() {
  const auto deal = [](auto ids) { return Deal{samples, world, false, ids}; };
  const auto dropping = [](auto ids) { return Deal{samples, world, true, ids}; };
  const auto all_but_one = [](const at::Tensor& ids) { return ids.narrow(0, 0, samples - samples % world); };
  return {
      {"right", "", "", deal([](int64_t epoch, int rank) { return every_third(padded(order(epoch)), rank); })},
      {"same-samples-for-all-ranks", "data-each-once", "assigned",
       deal([](int64_t epoch, int) { return every_third(padded(order(epoch)), 0); })},
      {"epoch-never-advances", "epoch-order", "same order",
       deal([](int64_t, int rank) { return every_third(padded(order(0)), rank); })},
      {"right-drop-last", "", "",
       dropping([=](int64_t epoch, int rank) { return every_third(all_but_one(order(epoch)), rank); })},
      {"rotated-by-the-epoch-not-shuffled", "epoch-order", "followed",
       deal([](int64_t epoch, int rank) { return every_third(padded(order(0).roll(epoch)), rank); })},
      {"rotated-by-a-share-each-epoch", "epoch-order", "followed", deal([](int64_t epoch, int rank) {
         return every_third(padded(order(0)), static_cast<int>((rank + epoch) % world));
       })},
      {"always-drops-the-same-sample", "data-each-once", "99", dropping([](int64_t epoch, int rank) {
         const auto few =
             at::randperm(samples - samples % world, at::detail::createCPUGenerator(static_cast<uint64_t>(epoch)));
         return every_third(few, rank);
       })},
      {"another-seed-on-each-rank", "data-each-once", "assigned",
       deal([](int64_t epoch, int rank) { return every_third(padded(order(epoch, rank)), rank); })},
      {"tail-dropped", "data-each-once", "expected 34",
       deal([](int64_t epoch, int rank) { return every_third(order(epoch).narrow(0, 0, 99), rank); })},
      {"not-padded", "data-each-once", "expected 34",
       deal([](int64_t epoch, int rank) { return every_third(order(epoch), rank); })},
      {"padded-with-one-sample", "data-each-once", "3 times", deal([](int64_t epoch, int rank) {
         const at::Tensor ids = order(epoch);
         return every_third(at::cat({ids, ids.narrow(0, 0, 1), ids.narrow(0, 0, 1)}), rank);
       })},
      {"neighbouring-pieces-overlap", "data-each-once", "not assigned",
       deal([](int64_t epoch, int rank) { return order(epoch).narrow(0, rank * 32, 34); })},
      {"drawn-with-replacement", "data-each-once", "times", deal([](int64_t epoch, int rank) {
         return at::randint(samples, {34}, at::detail::createCPUGenerator(static_cast<uint64_t>(epoch * world + rank)),
                            at::kLong);
       })},
      {"counted-from-one", "data-each-once", "not exist",
       deal([](int64_t epoch, int rank) { return every_third(padded(order(epoch)), rank) + 1; })},
  };
}

}  // namespace dpbench::wrong
