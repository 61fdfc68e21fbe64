// The units of the pipeline stages that this rank computes. Units gathers a unit's parameters before a pass needs them,
// frees them afterwards, and reduces their gradients.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/phases.h"
#include "strategies/fsdp/options.h"
#include "strategies/fsdp/unit.h"
#include "strategies/fsdp/unit_plan.h"

namespace dpbench::fsdp {

// A piece of a model's autograd graph, with its own backward pass. The whole graph is cut into such pieces.
struct GraphPiece {
  at::Tensor input, output;
};

// Pieces of a model's autograd graph, in the order of the forward pass. The input of each piece is the detached output
// of the piece before.
using GraphPieces = std::vector<GraphPiece>;

class Units {
 public:
  // Cuts the parameters of the stages that this rank computes into shards, and frees the unsharded parameters unless
  // the strategy never frees them. names: all of the model's parameters. is_mine: true for a parameter that this rank
  // has. A parameter that no stage or more than one unit uses belongs to the root unit.
  Units(const Model& model, const NamedTensors& names, const std::vector<Span>& stages,
        const std::function<bool(const at::Tensor&)>& is_mine, const Options& options, const Storage& storage);

  // Runs a pipeline stage's forward pass, unit by unit. x: the input of the stage's first block. With gradients
  // enabled, appends the autograd graph, cut at the borders of units, to `pieces`. last: true if the stage's backward
  // pass follows at once; its last unit then stays gathered.
  using Compute = std::function<at::Tensor(const Span& blocks, const at::Tensor& x)>;
  at::Tensor forward(size_t stage, const at::Tensor& x, bool last, const Compute& compute, GraphPieces& pieces,
                     Phases& phases);
  // When the gradients of a stage's units are reduced. after_each_unit: as soon as the unit's backward pass ends.
  // later: when the strategy calls reduce_stage().
  enum class Reduce { after_each_unit, later };
  // Runs the backward pass of a stage's autograd graph, cut into pieces at the borders of units. slope: the gradient of
  // the stage's output; an undefined tensor if the output is the loss. last: true in the step's last micro-batch.
  void backward(size_t stage, GraphPieces& pieces, at::Tensor slope, bool last, Reduce when, Phases& phases);
  // Reduces the gradients of a pipeline stage's units, which backward() left whole with Reduce::later. all: true if no
  // other stage of this rank will add gradients of the same micro-batch.
  void reduce_stage(size_t stage, bool last, bool all, Phases& phases);

  void clear_gradients();
  // Ends a step: frees the root unit, which stays gathered during the step, and waits for all gradient reductions.
  void end_step(Phases& phases);
  void end_evaluation();
  // Gathers the whole parameters after the optimizer has updated each rank's rows. Called only with ZeRO-2, which never
  // frees parameters.
  void update();

  // Returns all parameters of this rank, in the model's order.
  std::vector<ShardedParameter> parameters();
  // Returns whole tensors, gathered unit by unit. rows: this rank's rows, by parameter name. Collective: every rank
  // passes the same names.
  ByName joined(const ByName& rows);
  // Returns this rank's rows of `whole`, a tensor with the shape of the named parameter.
  at::Tensor rows_in(const std::string& name, const at::Tensor& whole) const;
  void set(const std::string& name, const at::Tensor& whole);
  // Returns the parts of units that this rank keeps between forward and backward pass, by the name of the unit.
  NamedTensors kept_parts() const;
  // Returns the peak bytes of gathered parameters since the last call.
  int64_t take_peak();

 private:
  struct Place {
    size_t number;  // position of the parameter in the model's list of parameters
    Unit* unit;
  };

  void need(size_t unit, int direction, Phases& phases);
  void note_peak(int64_t beside);
  void reduce(Unit& unit, bool last, Phases& phases);
  void free_after_forward(size_t unit);
  void free(size_t unit);
  std::vector<Unit*> all();

  Options options_;
  bool frees_;
  double share_;  // factor by which gradients are multiplied before they are summed over ranks
  UnitPlan plan_;
  std::vector<Unit> units_;
  Unit root_;
  std::map<std::string, Place> places_;  // index and unit of each parameter, by parameter name
  Unit* reducing_ = nullptr;             // the unit with a gradient reduction in flight; null if there is none
  bool reducing_last_ = false;
  int64_t peak_bytes_ = 0;
};

}  // namespace dpbench::fsdp
