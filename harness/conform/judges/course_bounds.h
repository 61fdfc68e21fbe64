// Bounds for the difference between a strategy's state after several steps and a course: the same steps, taken by the
// oracle.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/course.h"

namespace dpbench {

class CourseBounds {
 public:
  // expected: the course in float64. rounded: courses in the strategy's dtypes, which show how much rounding changes
  // it; may be empty. All arguments must outlive this object.
  CourseBounds(const Trial& trial, const Course& expected, const std::vector<Course>& rounded);

  // The functions of_..() return the largest allowed error of a strategy's value, e.g. of a loss. due: the correct
  // value, from the float64 course.
  double of_loss(size_t rank, double due) const;
  double of_output(size_t rank, const at::Tensor& due) const;
  // Returns the allowed error of each element of a parameter. found: the strategy's parameter.
  at::Tensor of_parameter(size_t rank, const std::string& name, const at::Tensor& found, const at::Tensor& due) const;
  double of_buffer(size_t rank, const std::string& name, const at::Tensor& due) const;
  double of_state(size_t rank, const std::string& name, const at::Tensor& due) const;

 private:
  void measure_rounding();
  double rounding(size_t rank, NamedTensors CourseEnd::* tensors, const std::string& name, const at::Tensor& due) const;
  double by_rounding(size_t rank, const std::string& name) const;
  at::Tensor widened(const at::Tensor& bound, const at::Tensor& found, const at::Tensor& due) const;

  const Trial& trial_;
  const Course& expected_;
  const std::vector<Course>& rounded_;
  OptimizerSpec spec_;
  bool rounds_;      // true if the strategy computes or communicates in a narrower dtype than float64
  double relative_;  // allowed relative error of every value; the rounding error that the rounded courses show is added
  double rates_;     // sum of the learning rates of all steps
  // usual_rounding_: norm of the rounding errors of all parameters / norm of their changes
  double loss_rounding_ = 0, usual_rounding_ = 0;
  std::vector<double> moved_;  // each rank's largest_move()
  // for each rank, the largest value of each kind of state, e.g. momentum, after the course
  std::vector<std::map<std::optional<Slot>, double>> largest_state_;
};

}  // namespace dpbench
