#include "harness/front/run/progress/event_lines.h"

#include <algorithm>
#include <chrono>

#include "harness/report/record/save.h"

namespace dpbench {

void EventLines::run_starts(const std::string& file) {
  Json cases = Json::array(), skipped = Json::array();
  for (const CaseRecord& record : report_.cases)
    if (record.status == CaseStatus::skipped)
      skipped.push_back({{"case", record.spec.id}, {"reason", record.reason}});
    else
      cases.push_back(to_json(record.spec));
  line("run-start", {{"run", report_.id},
                     {"file", file},
                     {"tool", report_.tool},
                     {"env", report_.env},
                     {"config", report_.config},
                     {"cases", std::move(cases)},
                     {"skipped", std::move(skipped)}});
}

void EventLines::begin(const std::string& case_id) {
  if (begun_.insert(case_id).second) line("case-start", {{"case", case_id}});
}

void EventLines::end(const std::string& case_id) { result("launch-end", case_id); }

void EventLines::over(const std::string& case_id) { result("case-end", case_id); }

void EventLines::problem(const std::string& text) { line("problem", {{"text", text}}); }

void EventLines::run_ends(int exit_code) {
  line("run-end", {{"run", report_.id}, {"status", name_of(report_.status)}, {"exit_code", exit_code}});
}

// Prints the result of a case as a line: the case's object of run.json without the records of its launches.
void EventLines::result(const char* event, const std::string& case_id) {
  const auto record =
      std::ranges::find_if(report_.cases, [&](const CaseRecord& one) { return one.spec.id == case_id; });
  if (record == report_.cases.end()) return;
  Json json = to_json(*record);
  json.erase("launches");
  line(event, {{"case", case_id}, {"launches", record->launches.size()}, {"result", std::move(json)}});
}

void EventLines::line(const char* event, const Json& members) {
  Json json = {{"event", event}, {"time", utc_text(std::chrono::system_clock::now())}};
  json.update(members);
  printed_ = print_(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n") && printed_;
}

}  // namespace dpbench
