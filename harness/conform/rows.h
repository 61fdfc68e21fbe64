// The verdicts of a case while they are gathered: one row a check, the worst of all the trials that it saw.
#pragma once

#include <string>
#include <vector>

#include "harness/report/case.h"

namespace dpbench {

class Rows {
 public:
  // An error within its bound passes. `where` and `likely` are read only when it does not.
  void measured(const std::string& name, const std::string& compared, double error, double bound,
                const std::string& where, const std::string& likely = "");
  void judged(const std::string& name, const std::string& compared, bool ok, const std::string& where,
              const std::string& likely = "");
  // Measured and shown, or not done at all: the reason stands in the row.
  void skipped(const std::string& name, const std::string& compared, const std::string& why,
               std::optional<double> error = {});
  void add(const CheckRow& row);

  const std::vector<CheckRow>& all() const { return rows_; }
  const CheckRow* find(const std::string& name) const;

 private:
  std::vector<CheckRow> rows_;
};

}  // namespace dpbench
