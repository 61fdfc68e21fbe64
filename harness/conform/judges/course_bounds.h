// Bounds for the difference between a strategy's state after several steps and a course: the same steps, taken by the
// oracle.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/course.h"

namespace dpbench {

// How much rounding changes a course: the largest differences between the course in float64 and the same course
// computed in the strategy's dtypes several times, with different roundings.
struct RoundingErrors {
  struct Rank {
    std::map<std::string, double> parameters, buffers, state;
    double output = 0;  // relative
  };

  size_t courses = 0;
  std::vector<Rank> ranks;
  double loss = 0;  // of any rank and step
  // Norm of the errors of all parameters / norm of their changes, in the first course. A parameter with few elements
  // may have a small error by chance, so every parameter is allowed at least this typical error.
  double usual = 0;
  std::vector<double> votes;  // for or against each of the course's hidden roundings (see Votes)

  // expected: the course in float64. rounded: the same course with roundings.
  void add(const Trial& trial, const Course& expected, const Course& rounded);
};

class CourseBounds {
 public:
  // expected: the course in float64. rounding: without courses, the bounds allow only the rounding error of a single
  // pass in the scenario's dtype, or, for a scenario in float64, the rounding error of the whole course. All arguments
  // must outlive this object.
  CourseBounds(const Trial& trial, const Course& expected, const RoundingErrors& rounding);

  // The functions of_..() return the largest allowed error of a strategy's value, e.g. of a loss. due: the correct
  // value, from the float64 course.
  double of_loss(size_t rank, double due) const;
  double of_output(size_t rank) const;
  // Returns the allowed error of each element of a parameter. found: the strategy's parameter.
  at::Tensor of_parameter(size_t rank, const std::string& name, const at::Tensor& found, const at::Tensor& due) const;
  double of_buffer(size_t rank, const std::string& name, const at::Tensor& due) const;
  double of_state(size_t rank, const std::string& name) const;

 private:
  double rounding(size_t rank, std::map<std::string, double> RoundingErrors::Rank::* errors,
                  const std::string& name) const;
  double by_rounding(size_t rank, const std::string& name) const;
  at::Tensor widened(const at::Tensor& bound, const at::Tensor& found, const at::Tensor& due) const;

  const Trial& trial_;
  const Course& expected_;
  const RoundingErrors& rounding_;
  OptimizerSpec spec_;
  bool rounds_;                // true if the strategy computes or communicates in a narrower dtype than float64
  double relative_;            // allowed relative error of every value; a multiple of rounding_ is added
  double rates_;               // sum of the learning rates of all steps
  std::vector<double> moved_;  // each rank's largest_move()
  // for each rank, the largest value of each kind of state, e.g. momentum, after the course
  std::vector<std::map<std::optional<Slot>, double>> largest_state_;
};

}  // namespace dpbench
