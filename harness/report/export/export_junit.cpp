#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/report/export/export.h"

namespace dpbench {
namespace {

// XML 1.0 cannot represent most control characters; they become '?'.
std::string escaped(const std::string& text) {
  std::string xml;
  for (const char c : text) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '"':
        xml += "&quot;";
        break;
      case '\n':
        xml += "&#10;";
        break;
      case '\t':
        xml += "&#9;";
        break;
      default:
        xml += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
  }
  return xml;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// Returns the sum of a case's timed blocks in seconds; the slowest rank of a block counts. Without timed blocks, as in
// `dpbench check`, returns the time that the case took.
double seconds_of(const CaseRecord& record) {
  double seconds = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const double step_ns : sample_step_ns(launch))
      seconds += step_ns * static_cast<double>(launch.ranks.front().steps_per_sample) * 1e-9;
  return seconds > 0 ? seconds : record.elapsed_s;
}

std::string time_attribute(double seconds) {
  char text[48];
  std::snprintf(text, sizeof text, " time=\"%.6f\"", seconds);
  return text;
}

struct Test {
  enum class Status { passed, failed, error, skipped };
  std::string name;
  Status status = Status::passed;
  std::string message;
};

Test::Status outcome_of(const CheckRow& row) {
  if (row.status == CheckStatus::passed) return Test::Status::passed;
  return row.status == CheckStatus::failed ? Test::Status::failed : Test::Status::skipped;
}

std::string message_of(const CheckRow& row) {
  std::string text = row.detail;
  if (!row.compared.empty()) text += (text.empty() ? "" : "; ") + row.compared;
  if (row.error) text += ": error " + number(*row.error);
  if (row.bound) text += ", bound " + number(*row.bound);
  if (!row.likely.empty()) text += "; likely: " + row.likely;
  return text;
}

// Returns a JUnit test for each conformance check, plus a test "run" if the case did not end normally or has no checks.
std::vector<Test> tests_of(const CaseRecord& record) {
  std::vector<Test> tests;
  for (const CheckRow& row : record.checks)
    tests.push_back({row.name, outcome_of(row), row.status == CheckStatus::passed ? "" : message_of(row)});
  if (record.status == CaseStatus::failed || record.status == CaseStatus::interrupted)
    tests.push_back({"run", Test::Status::error, record.status + ": " + record.reason});
  else if (record.status == CaseStatus::skipped || record.status == CaseStatus::disturbed ||
           record.status == CaseStatus::unproven)
    tests.push_back({"run", Test::Status::skipped, record.reason});
  else if (tests.empty())
    tests.push_back({"run", Test::Status::passed, ""});
  return tests;
}

std::string element(const std::string& case_id, const Test& test, double seconds) {
  static const std::string indent = "    ";
  std::string xml = indent + "<testcase classname=\"" + escaped(case_id) + "\" name=\"" + escaped(test.name) + "\"" +
                    time_attribute(seconds);
  if (test.status == Test::Status::passed) return xml + "/>\n";
  const std::string tag = test.status == Test::Status::failed  ? "failure"
                          : test.status == Test::Status::error ? "error"
                                                               : "skipped";
  return xml + ">\n" + indent + "  <" + tag + " message=\"" + escaped(test.message) + "\"/>\n" + indent +
         "</testcase>\n";
}

}  // namespace

std::string junit_xml(const Report& report) {
  std::string suites;
  size_t total = 0, failures = 0, errors = 0;
  double total_seconds = 0;
  for (const CaseRecord& record : report.cases) {
    const auto tests = tests_of(record);
    const auto count = [&](Test::Status status) {
      return static_cast<size_t>(
          std::count_if(tests.begin(), tests.end(), [&](const Test& t) { return t.status == status; }));
    };
    const double seconds = seconds_of(record);
    suites += "  <testsuite name=\"" + escaped(record.spec.id) + "\" tests=\"" + std::to_string(tests.size()) +
              "\" failures=\"" + std::to_string(count(Test::Status::failed)) + "\" errors=\"" +
              std::to_string(count(Test::Status::error)) + "\" skipped=\"" +
              std::to_string(count(Test::Status::skipped)) + "\"" + time_attribute(seconds) + ">\n";
    // Only the first test has the time, so that readers that add up the tests get the case's time.
    for (size_t i = 0; i < tests.size(); ++i) suites += element(record.spec.id, tests[i], i == 0 ? seconds : 0);
    suites += "  </testsuite>\n";
    total_seconds += seconds;
    total += tests.size(), failures += count(Test::Status::failed), errors += count(Test::Status::error);
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"" + escaped(report.id) + "\" tests=\"" +
         std::to_string(total) + "\" failures=\"" + std::to_string(failures) + "\" errors=\"" + std::to_string(errors) +
         "\"" + time_attribute(total_seconds) + ">\n" + suites + "</testsuites>\n";
}

}  // namespace dpbench
