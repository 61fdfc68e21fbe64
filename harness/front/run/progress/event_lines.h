// The lines of `dpbench run -o jsonl`: one JSON object for each event of a run.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "harness/front/run/progress/progress.h"
#include "harness/report/record/report.h"

namespace dpbench {

class EventLines : public ProgressListener {
 public:
  // Writes a line; returns false if it could not be written.
  using Print = std::function<bool(const std::string& text)>;

  // Reads the cases' results from `report`, which must outlive this object.
  EventLines(const Report& report, Print print) : report_(report), print_(std::move(print)) {}

  void run_starts(const std::string& file);  // file: path of the run's run.json
  void begin(const std::string& case_id) override;
  void end(const std::string& case_id) override;
  void over(const std::string& case_id) override;
  void problem(const std::string& text) override;
  void run_ends(int exit_code);
  bool printed() const { return printed_; }  // false if a line could not be written

 private:
  void line(const char* event, const Json& members);
  void result(const char* event, const std::string& case_id);

  const Report& report_;
  Print print_;
  std::set<std::string> begun_;  // ids of the cases that have begun
  bool printed_ = true;
};

}  // namespace dpbench
