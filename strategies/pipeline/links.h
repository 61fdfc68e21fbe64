// Transfers tensors between the ranks of a pipeline. The shape and the types of an activation are sent only once for
// each stage boundary and shape of the micro-batch.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "strategies/api/mesh.h"

namespace dpbench::pipeline {

// A send or receive in flight. wait() waits for its end and returns the tensor.
struct Transfer {
  at::Tensor tensor;
  c10::intrusive_ptr<c10d::Work> work;
  // For tests. If true, `tensor` is a copy that was made for sending, and wait() fills it with NaN: a sender that
  // reuses its buffer would overwrite it too.
  bool spoils = false;

  at::Tensor wait();
};

// Identifies activations that cross a boundary between pipeline stages. Two activations with an equal Cargo must have
// the same shape, so the shape is sent only once.
struct Cargo {
  int stage = 0;  // the stage that sends the activations
  bool training = true;
  std::vector<int64_t> sizes = {};  // shape of the micro-batch's input

  friend auto operator<=>(const Cargo&, const Cargo&) = default;
};

class Links {
 public:
  // poison: for tests. If true, a tensor to be received holds NaN until it arrives. A copy of each tensor is sent, and
  // the copy is filled with NaN after the transfer.
  // typed: the mesh axes on which activations have types (strategies/api/parts/activation.h). send() sends an
  // activation's types on these axes, and receive() gives them to the received activation.
  Links(Axis axis, at::Device device, bool poison, std::vector<Axis> typed = {})
      : axis_(std::move(axis)), device_(device), poison_(poison), typed_(std::move(typed)) {}

  // tag: a number that distinguishes the messages in flight between two ranks. cargo: identifies the shape of the
  // tensor. send() throws if an earlier tensor with an equal cargo had another shape.
  Transfer send(const at::Tensor& tensor, int to, int tag, const Cargo& cargo);
  Transfer receive(int from, int tag, const Cargo& cargo);
  // Transfer a tensor without its shape, because the receiver knows it. A gradient, for example, has the shape and
  // dtype of its activation.
  Transfer send_like(const at::Tensor& tensor, int to, int tag) const;
  Transfer receive_like(const at::Tensor& activation, int from, int tag) const;
  Transfer receive_sized(const std::vector<int64_t>& sizes, at::ScalarType dtype, int from, int tag) const;

  // Broadcasts the tensor of the rank `root`, and returns it on every rank. If the tensor is undefined, the result is
  // undefined too.
  at::Tensor share(const at::Tensor& tensor, int root) const;

 private:
  struct Shape {
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes;

    friend bool operator==(const Shape&, const Shape&) = default;
  };
  struct Header {
    Shape shape;
    int64_t types = 0;  // as types_of() returns them
  };
  // Returns the types of an activation on the axes of `typed_` as one number; 0: all are unknown.
  int64_t types_of(const at::Tensor& activation) const;
  void set_types(const at::Tensor& activation, int64_t types) const;
  at::Tensor space(const std::vector<int64_t>& sizes, at::ScalarType dtype) const;

  Axis axis_;
  at::Device device_;
  bool poison_;
  std::vector<Axis> typed_;
  std::map<Cargo, Header> known_;  // the headers of activations that this rank has received so far
  std::map<Cargo, Shape> told_;    // the shapes of activations that this rank has sent so far
};

}  // namespace dpbench::pipeline
