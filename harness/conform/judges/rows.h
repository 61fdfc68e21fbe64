// The verdicts of a case while they are gathered: one row a check, the worst of all the trials that it saw.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/report/record/case.h"

namespace dpbench {

// A text, or what makes one: most checks pass and need none.
class Words {
 public:
  Words(const char* text) : make_([text] { return std::string(text); }) {}
  Words(std::string text) : make_([text = std::move(text)] { return text; }) {}
  template <class Make>
    requires std::is_invocable_r_v<std::string, Make>
  Words(Make make) : make_(std::move(make)) {}
  std::string operator()() const { return make_(); }

 private:
  std::function<std::string()> make_;
};

class Rows {
 public:
  // The name of the row of completed().
  static constexpr char completion[] = "run-completes";

  // An error within its bound passes. `where` and `likely` are asked only when it does not.
  void measured(const std::string& name, const std::string& compared, double error, double bound, const Words& where,
                const Words& likely = "");
  void judged(const std::string& name, const std::string& compared, bool ok, const Words& where,
              const Words& likely = "");
  // Measured and shown, or not done at all: the reason stands in the row.
  void skipped(const std::string& name, const std::string& compared, const std::string& why,
               std::optional<double> error = {});
  // Whether all ranks took all steps without an exception.
  void completed(bool ok, const Words& where);
  void add(const CheckRow& row);

  const std::vector<CheckRow>& all() const { return rows_; }
  const CheckRow* find(const std::string& name) const;

 private:
  std::vector<CheckRow> rows_;
};

}  // namespace dpbench
