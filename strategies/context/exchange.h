// The exchange of queries, keys, values and outputs of attention between the ranks that divide a sequence's tokens
// among them (context parallelism).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strategies/api/phases.h"
#include "strategies/context/options.h"
#include "strategies/context/ring.h"
#include "strategies/context/token_cut.h"
#include "strategies/parts/timed.h"
#include "workloads/api/sequence_split.h"

namespace dpbench::context {

class Exchange : public SequenceSplit {
 public:
  // tokens: length of the sequence. phases: charged with the time of the collectives; may be null.
  Exchange(const Axis& axis, const Options& options, int64_t tokens, Phases* phases);

  void begin_block(const std::string& name) const override;
  const std::vector<Piece>& tokens() const override { return cut_.of(axis_.rank); }
  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const std::shared_ptr<const AttentionKernel>& kernel) const override;
  at::Tensor total(const at::Tensor& x) const override;
  at::Tensor join(const at::Tensor& own, int64_t dim) const override;

 protected:
  Around around(const std::string& operation) const;
  virtual std::shared_ptr<const Ring> ring() const;
  // The all-to-alls of Ulysses attention. A rank enters to_heads() with all heads of its own tokens and gets some heads
  // of all tokens; to_tokens() is the reverse.
  virtual at::Tensor to_heads(const at::Tensor& x, const std::vector<int64_t>& heads) const;
  virtual at::Tensor to_tokens(const at::Tensor& x, const std::vector<int64_t>& heads) const;

  Axis axis_;
  Options options_;
  TokenCut cut_;
  Phases* phases_;
  mutable std::string block_;
};

}  // namespace dpbench::context
