#include "strategies/api/backward.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/input_buffer.h>

#include "workloads/base/runtime.h"
#include "workloads/layers/own_node.h"

namespace dpbench {
namespace {

using torch::autograd::AnomalyMode;
using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::validate_outputs;
using torch::autograd::variable_list;

bool on_cpu(const Node& node) {
  for (uint32_t i = 0; i < node.num_inputs(); ++i)
    if (!node.input_metadata(i).device().is_cpu()) return false;
  return true;
}

// Executes the part of an autograd graph that is reachable from `root`, on the calling thread.
class Walk {
 public:
  explicit Walk(Edge root) : root_(std::move(root)) {
    task_of(*root_.function);
    for (size_t i = 0; i < tasks_.size() && all_on_cpu_; ++i) {
      tasks_[i].first_target = targets_.size();
      for (const Edge& edge : tasks_[i].node->next_edges()) {
        targets_.push_back(edge.is_valid() ? task_of(*edge.function) : 0);
        if (edge.is_valid()) ++tasks_[targets_.back()].awaited;
      }
    }
  }

  bool all_on_cpu() const { return all_on_cpu_; }

  // Runs the backward pass of the graph. May be called only once per object. slope: the gradient of the graph's output.
  void run(at::Tensor slope) {
    const at::NoGradGuard no_grad;
    const OwnWalk here;
    tasks_[0].inputs[root_.input_nr] = std::move(slope);
    make_ready(0);
    while (!ready_.empty()) {
      Task& task = tasks_[ready_.top().second];
      ready_.pop();
      pass_on(task, outputs_of(*task.node, std::move(task.inputs)));
    }
  }

 private:
  // Sequence number of an autograd node, and the node's index in the vector tasks_.
  using Ready = std::pair<uint64_t, size_t>;
  struct MadeEarlier {
    bool operator()(const Ready& a, const Ready& b) const { return a.first < b.first; }
  };
  struct Task {
    Node* node;
    variable_list inputs;
    size_t first_target = 0;  // index, in the vector targets_, of the node's first outgoing edge
    int awaited = 0;          // number of the node's incoming edges that have not delivered a gradient yet
  };

  size_t task_of(Node& node) {
    const size_t known = find(node);
    if (known == tasks_.size()) {
      tasks_.push_back({&node, variable_list(node.num_inputs())});
      all_on_cpu_ = all_on_cpu_ && on_cpu(node);
      if (known >= few) numbers_.emplace(&node, known);
    }
    return known;
  }

  // Returns the index of an autograd node in the vector tasks_, or tasks_.size() if the node is not in it. Searches the
  // first few nodes linearly, because a map lookup would cost a measurable part of a 10 us step.
  size_t find(const Node& node) const {
    const size_t first = std::min(few, tasks_.size());
    for (size_t i = 0; i < first; ++i)
      if (tasks_[i].node == &node) return i;
    const auto known = numbers_.find(&node);
    return known == numbers_.end() ? tasks_.size() : known->second;
  }

  void make_ready(size_t task) { ready_.emplace(tasks_[task].node->sequence_nr(), task); }

  static variable_list outputs_of(Node& node, variable_list inputs) {
    for (const auto& hook : node.tensor_pre_hooks()) inputs = (*hook)(inputs);
    for (const auto& [output, hook] : node.retains_grad_hooks()) inputs = (*hook)(inputs);
    for (const auto& hook : node.pre_hooks()) inputs = (*hook)(inputs);
    node.will_release_variables();
    const bool hooked = !node.post_hooks().empty();
    const variable_list seen = hooked ? inputs : variable_list{};
    variable_list outputs = node(std::move(inputs));
    validate_outputs(node.next_edges(), outputs,
                     [&node](const std::string& what) { return node.name() + " returned an " + what; });
    for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, seen);
    node.release_variables();
    return outputs;
  }

  void pass_on(const Task& task, variable_list outputs) {
    const edge_list& edges = task.node->next_edges();
    for (size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i].is_valid()) continue;
      const size_t target = targets_[task.first_target + i];
      add(tasks_[target].inputs[edges[i].input_nr], std::move(outputs[i]));
      if (--tasks_[target].awaited == 0) make_ready(target);
    }
  }

  // Adds a gradient that reaches an autograd node to the sum of those that reached it before. Uses the engine's own
  // InputBuffer, so in-place addition and mixed dense and sparse gradients follow the rules of torch's engine.
  static void add(at::Tensor& sum, at::Tensor&& more) {
    if (!sum.defined() || !more.defined()) {
      if (more.defined()) sum = std::move(more);
      return;
    }
    InputBuffer buffer(1);
    buffer.add(0, std::move(sum), std::nullopt, std::nullopt, nullptr);
    buffer.add(0, std::move(more), std::nullopt, std::nullopt, nullptr);
    sum = std::move(buffer.buffer[0]);
  }

  Edge root_;
  static constexpr size_t few = 16;
  c10::SmallVector<Task, few> tasks_;
  c10::SmallVector<size_t, 2 * few> targets_;
  // Index in tasks_ of each autograd node, without the first few nodes, which are found by a linear search.
  ska::flat_hash_map<const Node*, size_t> numbers_;
  // Autograd nodes that are ready to run. AccumulateGrad nodes come first, then the most recently created node.
  // AccumulateGrad nodes keep the order of the engine's heap, because the order of ddp's buckets depends on it.
  std::priority_queue<Ready, c10::SmallVector<Ready, few>, MadeEarlier> ready_;
  bool all_on_cpu_ = true;
};

// An autograd node that runs a whole graph, so torch's engine sees a single node.
class WalkedNode : public Node {
 public:
  WalkedNode(Walk& walk, const at::Tensor& output) : walk_(walk) { add_input_metadata(output); }
  std::string name() const override { return walked_node; }
  variable_list apply(variable_list&& slope) override {
    walk_.run(std::move(slope[0]));
    return {};
  }

 private:
  Walk& walk_;
};

Edge root_of(const at::Tensor& output) { return {output.grad_fn(), static_cast<uint32_t>(output.output_nr())}; }

// Runs the backward pass without torch's engine: makes a Walk, our own execution of the output's autograd graph, and
// passes it to by_walk(). Returns false and does nothing if torch's engine must run the graph: with --runtime torch, or
// if a Walk cannot run this graph.
template <class ByWalk>
bool walked(const at::Tensor& output, const ByWalk& by_walk) {
  if (runtime() == Runtime::torch) return false;
  if (!output.defined() || !output.is_cpu() || output.is_complex() || !output.grad_fn() || AnomalyMode::is_enabled())
    return false;
  Walk walk(root_of(output));
  if (!walk.all_on_cpu()) return false;
  by_walk(walk);
  return true;
}

// Same as walked(), for the backward pass of a loss: runs it without torch's engine. Returns false and does nothing if
// the loss does not have exactly one element or if torch's engine must run the graph.
template <class ByWalk>
bool walked_loss(const at::Tensor& loss, const ByWalk& by_walk) {
  return loss.defined() && loss.numel() == 1 && walked(loss, by_walk);
}

}  // namespace

void backward(const at::Tensor& loss) {
  if (!walked_loss(loss, [&](Walk& walk) { walk.run(at::ones_like(loss)); })) loss.backward();
}

void backward(const at::Tensor& output, const at::Tensor& slope) {
  const auto by_walk = [&](Walk& walk) {
    variable_list slopes{slope};
    validate_outputs({root_of(output)}, slopes,
                     [](const std::string& what) { return "backward() was given an " + what; });
    walk.run(std::move(slopes[0]));
  };
  if (!walked(output, by_walk)) output.backward(slope);
}

void backward_with_callbacks(const at::Tensor& loss) {
  const auto by_walk = [&](Walk& walk) {
    const auto node = make_node<WalkedNode>(walk, loss);
    Engine::get_default_engine().execute({Edge(node, 0)}, {at::ones_like(loss)}, /*keep_graph=*/false,
                                         /*create_graph=*/false,
                                         /*accumulate_grad=*/true);
  };
  if (!walked_loss(loss, by_walk)) loss.backward();
}

}  // namespace dpbench
