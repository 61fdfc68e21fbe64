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

std::string element(const std::string& case_id, const Test& test) {
  static const std::string indent = "    ";
  std::string xml = indent + "<testcase classname=\"" + escaped(case_id) + "\" name=\"" + escaped(test.name) + "\"";
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
  for (const CaseRecord& record : report.cases) {
    const auto tests = tests_of(record);
    const auto count = [&](Test::Status status) {
      return static_cast<size_t>(
          std::count_if(tests.begin(), tests.end(), [&](const Test& t) { return t.status == status; }));
    };
    suites += "  <testsuite name=\"" + escaped(record.spec.id) + "\" tests=\"" + std::to_string(tests.size()) +
              "\" failures=\"" + std::to_string(count(Test::Status::failed)) + "\" errors=\"" +
              std::to_string(count(Test::Status::error)) + "\" skipped=\"" +
              std::to_string(count(Test::Status::skipped)) + "\">\n";
    for (const Test& test : tests) suites += element(record.spec.id, test);
    suites += "  </testsuite>\n";
    total += tests.size(), failures += count(Test::Status::failed), errors += count(Test::Status::error);
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"" + escaped(report.id) + "\" tests=\"" +
         std::to_string(total) + "\" failures=\"" + std::to_string(failures) + "\" errors=\"" + std::to_string(errors) +
         "\">\n" + suites + "</testsuites>\n";
}

}  // namespace dpbench
