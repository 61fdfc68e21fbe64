// Collects the check results of a case: one row per check, with its worst result over all scenarios.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/report/record/case.h"

namespace dpbench {

// A text, or a function that creates the text on demand. Texts about failures are created on demand, because most
// checks pass and never need them.
class LazyText {
 public:
  LazyText(const char* text) : make_([text] { return std::string(text); }) {}
  LazyText(std::string text) : make_([text = std::move(text)] { return text; }) {}
  template <class Make>
    requires std::is_invocable_r_v<std::string, Make>
  LazyText(Make make) : make_(std::move(make)) {}
  std::string operator()() const { return make_(); }

 private:
  std::function<std::string()> make_;
};

class Rows {
 public:
  // Name of the check that all ranks complete all steps without an exception.
  static constexpr char completion[] = "run-completes";

  // Adds the result of a check, which passes if error <= bound. compared: what the check compares. where: the place of
  // a failure. likely: its likely cause. `where` and `likely` are evaluated only if the check fails.
  void measured(const std::string& name, const std::string& compared, double error, double bound, const LazyText& where,
                const LazyText& likely = "");
  void judged(const std::string& name, const std::string& compared, bool ok, const LazyText& where,
              const LazyText& likely = "");
  // Adds a skipped check with the reason. error: the measured error, if there is one although the check is skipped.
  void skipped(const std::string& name, const std::string& compared, const std::string& why,
               std::optional<double> error = {});
  // Adds the result of the check run-completes: whether all ranks completed all steps without an exception.
  void completed(bool ok, const LazyText& where);
  void add(const CheckRow& row);

  const std::vector<CheckRow>& all() const { return rows_; }
  const CheckRow* find(const std::string& name) const;

 private:
  std::vector<CheckRow> rows_;
};

}  // namespace dpbench
