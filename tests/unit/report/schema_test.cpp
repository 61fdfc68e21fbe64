#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness/report/record/find_run.h"
#include "harness/report/validate/duel_validate.h"
#include "harness/report/validate/schema.h"
#include "harness/report/validate/validate.h"
#include "tests/support/sample_reports.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using namespace test;

const fs::path source = DPBENCH_SOURCE;

// Returns the first Python interpreter that has the jsonschema module, or an empty string if there is none. The first
// python3 in PATH may lack the module.
std::string python() {
  for (const char* candidate : {"python3", "/usr/bin/python3"})
    if (std::system((std::string(candidate) + " -c 'import jsonschema' 2>/dev/null").c_str()) == 0) return candidate;
  return "";
}

class Schema : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dpbench-schema-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    here_ = name;
    static const std::string found = python();
    ASSERT_NE(found, "") << "no python3 has the jsonschema module: apt-get install python3-jsonschema";
    python_ = found;
  }
  void TearDown() override { fs::remove_all(here_); }

  // Validates the reports against the schema. Returns one line per fault, empty if all are valid. Report i is called
  // i.json in the lines.
  std::string faults_of(const std::vector<Json>& reports, const std::string& flags = "") {
    std::string command = python_ + " " + (source / "tests/support/check_schema.py").string() + " " + flags + " " +
                          (source / "results/schema/run-1.schema.json").string();
    for (size_t i = 0; i < reports.size(); ++i) {
      const fs::path file = here_ / (std::to_string(i) + ".json");
      std::ofstream(file) << reports[i].dump();
      command += " " + file.string();
    }
    const int status = std::system((command + " >" + (here_ / "output").string()).c_str());
    const std::string output = read_text(here_ / "output", 1 << 20);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == (output.empty() ? 0 : 1)) << command << "\n" << output;
    return output;
  }
  void expect_all_refused(const std::vector<Json>& reports, const std::vector<std::string>& names) {
    const std::string output = faults_of(reports);
    for (size_t i = 0; i < reports.size(); ++i)
      EXPECT_NE(output.find((here_ / (std::to_string(i) + ".json")).string() + ":"), std::string::npos) << names[i];
  }

  fs::path here_;
  std::string python_;
};

// The committed schema files and the glossary must equal the output of `dpbench schema run|duel|compare|glossary`.
TEST(CommittedSchemaFiles, AndTheGlossaryEqualTheOutputOfTheSchemaCommand) {
  const auto committed = [](const char* file) { return read_text(source / "results" / file, 1 << 20); };
  EXPECT_EQ(committed("schema/run-1.schema.json"), run_schema().dump(1) + "\n");
  EXPECT_EQ(committed("schema/duel-1.schema.json"), duel_schema().dump(1) + "\n");
  EXPECT_EQ(committed("schema/compare-1.schema.json"), compare_schema().dump(1) + "\n");
  EXPECT_EQ(committed("glossary.md"), glossary());
}

TEST_F(Schema, DescribesEveryKeyOfAReport) {
  Report empty = full_report();
  empty.cases.clear();
  EXPECT_EQ(faults_of({to_json(full_report()), to_json(empty)}, "--closed"), "");
}

TEST_F(Schema, AcceptsKeysOfALaterMinorVersion) {
  Json report = to_json(full_report());
  report["schema_version"]["minor"] = 9;
  report["added"] = report["cases"][0]["added"] = report["env"]["cpu"]["added"] = {{"x", 1}};
  EXPECT_EQ(faults_of({report}), "");
  EXPECT_NE(faults_of({report}, "--closed"), "") << "the closed form must find undescribed keys";
}

struct Fault {
  const char* pointer;
  Json value;
};

// Each entry sets a value of full_report(), at a JSON pointer, so that the schema must refuse the report. Case numbers
// are those of full_report().
const std::vector<Fault> faults = {
    {"/schema", "dpbench.other"},
    {"/schema_version/major", 2},
    {"/status", "ok"},
    {"/env/fingerprint", "xyz"},
    {"/env", Json::object()},
    {"/env/cpu/usable", "two"},
    {"/env/cpu/caches", "none"},
    {"/env/load/minutes_1", -1},
    {"/env/versions/torch", 2},
    {"/env/variables/OMP_NUM_THREADS", 1},
    {"/env/gpus/0/memory_bytes", -1},
    {"/cases/0/status", "fine"},
    {"/cases/0/world", 0},
    {"/cases/0/world", 1.5},
    {"/cases/0/device", "tpu"},
    {"/cases/0/reason", nullptr},
    {"/cases/0/stats/step_time_ns/median", 0},
    {"/cases/0/stats/step_time_ns/median", nullptr},
    {"/cases/0/stats/step_time_ns/interval", "days"},
    {"/cases/0/derived/samples_per_s", "fast"},
    {"/cases/0/derived/comm_fraction", 1.5},
    {"/cases/0/launches/0/ranks/0/samples_ns/0", 0},
    {"/cases/0/launches/0/ranks/0/samples_ns/0", 10.5},
    {"/cases/0/params/bucket_mb", 1},
    {"/cases/1/launches/0/ranks/0/profile/collectives/0/bytes", -1'000'000'000'000'000'000},
    {"/cases/1/launches/0/ranks/0/profile/collectives/0/op", ""},
    {"/cases/1/launches/0/ranks/0/profile/ledger/0/calls", -1},
    {"/cases/1/launches/0/ranks/0/peak_rss_bytes", -1},
    {"/cases/1/checks/0/status", "failed"},  // a case with a failed check must not have the status ok
    {"/cases/2/status", "ok"},
};

struct Faulty {
  std::vector<Json> reports;
  std::vector<std::string> names;
};

Faulty faulty_reports() {
  const Json good = to_json(full_report());
  Faulty made;
  for (const auto& [pointer, value] : faults) {
    made.reports.push_back(good);
    made.reports.back()[Json::json_pointer(pointer)] = value;
    made.names.push_back(pointer + std::string(" = ") + value.dump());
  }
  for (const char* part : {"schema", "schema_version", "id", "status", "tool", "env", "config", "cases"}) {
    made.reports.push_back(good);
    made.reports.back().erase(part);
    made.names.push_back(std::string("without ") + part);
  }
  made.reports.push_back(good);
  made.reports.back()["cases"][2]["stats"]["step_time_ns"] = good["cases"][0]["stats"]["step_time_ns"];
  made.names.push_back("a speed for a case that is wrong");
  return made;
}

TEST_F(Schema, RefusesReportsWithMissingOrInvalidValues) {
  const auto [reports, names] = faulty_reports();
  EXPECT_EQ(faults_of({to_json(full_report())}), "");
  expect_all_refused(reports, names);
}

// `dpbench validate` works without the jsonschema module. It must find every fault that the schema forbids, or fail to
// read the report.
TEST(WithoutJsonschema, ValidateCommandFindsEveryFaultThatTheSchemaForbids) {
  const auto [reports, names] = faulty_reports();
  for (size_t i = 0; i < reports.size(); ++i) {
    try {
      EXPECT_NE(problems_of(reports[i]), std::vector<std::string>{}) << names[i];
    } catch (const UsageError&) {
    }
  }
}

// Reports of every minor version stay readable. There is a golden file (a stored report) for each minor version,
// including the current one.
class OlderReports : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> golden_files() {
  constexpr int first_with_training = 2;
  std::vector<std::string> files;
  for (int minor = 0; minor <= report_minor_version; ++minor) {
    files.push_back("run-1." + std::to_string(minor) + ".json");
    if (minor >= first_with_training) files.push_back("train-1." + std::to_string(minor) + ".json");
  }
  return files;
}

TEST_P(OlderReports, AreReadWithoutLosingAFigure) {
  const fs::path file = source / "tests/golden" / GetParam();
  ASSERT_TRUE(fs::exists(file)) << "add a small report written by the new minor version";
  const Json before = parse_json(read_text(file, 1 << 20), "golden");
  const int minor = before["schema_version"]["minor"];
  EXPECT_TRUE(GetParam().ends_with("-1." + std::to_string(minor) + ".json")) << minor;
  const Json after = to_json(read_report(file));
  const Json lost = Json::diff(before, after);
  for (const Json& change : lost) {
    const std::string path = change["path"];
    // In version 1.0, `baseline` marked only baseline cases that dpbench had added. The reader converts `baseline` to
    // its present meaning.
    const bool of_1_0 = minor == 0 && path.ends_with("/baseline");
    // Versions before 1.5 had only the runtime `fast`, which their ids do not name. The reader adds it.
    const bool of_id = minor < 5 && path.ends_with("/id") && path.starts_with("/cases/");
    EXPECT_TRUE(change["op"] == "add" || of_1_0 || of_id || path.starts_with("/schema_version")) << change;
  }
  EXPECT_EQ(problems_of(before), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(OfVersion, OlderReports, ::testing::ValuesIn(golden_files()));

TEST(OlderDuelReports, AreReadWithoutLosingAFigure) {
  for (int minor = 0; minor <= duel_minor_version; ++minor) {
    const fs::path file = source / ("tests/golden/duel-1." + std::to_string(minor) + ".json");
    ASSERT_TRUE(fs::exists(file)) << "add a small report written by the new minor version";
    const Json before = read_document(file);
    EXPECT_EQ(before["schema_version"]["minor"], minor);
    EXPECT_EQ(duel_problems_of(before), std::vector<std::string>{});
    for (const Json& change : Json::diff(before, to_json(duel_from_json(before))))
      EXPECT_TRUE(change["op"] == "add" || change["path"].get<std::string>().starts_with("/schema_version")) << change;
  }
}

}  // namespace
}  // namespace dpbench
