#include "harness/report/record/save.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <set>

#include "harness/report/record/find_run.h"
#include "tests/support/contains.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

// Gives each test a temporary results directory and removes it afterwards.
class Save : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dpbench-save-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    here_ = name;
    results_ = here_ / "results";
  }
  void TearDown() override { fs::remove_all(here_); }

  static Report report(const std::string& id, RunStatus status = RunStatus::complete) {
    Report report;
    report.id = id;
    report.status = status;
    return report;
  }
  void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  template <class Error, class Call>
  std::string message(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error of that kind";
  }

  fs::path here_, results_;
};

const std::string id = "20261121T063057Z-a1b2c3d-2xEPYC-5f3a";

TEST_F(Save, WritesAReportThatReadsBack) {
  RunDirectory run(results_, id);
  run.save(report(run.id()));
  EXPECT_EQ(read_report(results_ / id / "run.json").id, id);
  EXPECT_EQ(std::distance(fs::directory_iterator(results_ / id), {}), 1) << "no temporary file is left";
}

TEST_F(Save, ConcurrentRunsGetDifferentDirectories) {
  std::vector<std::future<std::string>> runs;
  for (int i = 0; i < 8; ++i)
    runs.push_back(std::async(std::launch::async, [&] {
      RunDirectory run(results_, id);
      run.save(report(run.id()), true);
      return run.id();
    }));
  std::set<std::string> ids;
  for (auto& run : runs) ids.insert(run.get());
  EXPECT_EQ(ids.size(), 8u);
  EXPECT_TRUE(ids.contains(id));
  EXPECT_TRUE(ids.contains(id + "-08"));
  for (const auto& name : ids) EXPECT_EQ(read_report(results_ / name / "run.json").id, name);
}

TEST_F(Save, ReportIsWrittenAtMostOncePerSecondUnlessForced) {
  RunDirectory run(results_, id);
  run.save(report(run.id(), RunStatus::interrupted));
  run.save(report(run.id(), RunStatus::complete));
  EXPECT_EQ(read_report(run.path() / "run.json").status, RunStatus::interrupted);
  run.save(report(run.id(), RunStatus::complete), true);
  EXPECT_EQ(read_report(run.path() / "run.json").status, RunStatus::complete);
}

TEST_F(Save, RefusesAFileAsTheResultsDirectory) {
  write(results_, "a file");
  expect_contains(message<UsageError>([&] { RunDirectory(results_, id); }), {results_.string(), "--out"});
  EXPECT_NE(message<UsageError>([&] { RunDirectory(results_ / "below", id); }).find("--out"), std::string::npos);
  EXPECT_NE(message<UsageError>([&] { RunDirectory("/dev/stdin", id); }).find("--out"), std::string::npos);
}

TEST_F(Save, RefusesAResultsDirectoryThatCannotBeCreated) {
  EXPECT_NE(message<UsageError>([&] { RunDirectory("/proc/dpbench", id); }).find("/proc/dpbench"), std::string::npos);
}

// As long as an object of this class exists, a limit on the file size simulates a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Save, AFullDiskKeepsThePreviousReport) {
  RunDirectory run(results_, id);
  run.save(report(run.id(), RunStatus::interrupted), true);
  const std::string before = read_text(run.path() / "run.json", 1 << 20);
  Report large = report(run.id());
  large.config = {{"filler", std::string(1 << 16, 'x')}};
  const auto save_on_full_disk = [&] {
    const FullDisk full(4096);
    run.save(large, true);
  };
  EXPECT_NE(message<WriteError>(save_on_full_disk).find("File too large"), std::string::npos);
  EXPECT_EQ(read_text(run.path() / "run.json", 1 << 20), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(run.path()), {}), 1) << "the partial file is removed";
  run.save(large, true);
  EXPECT_EQ(read_report(run.path() / "run.json").status, RunStatus::complete) << "written once there is space again";
}

TEST_F(Save, SavingIntoARemovedRunDirectoryIsAWriteError) {
  RunDirectory run(results_, id);
  fs::remove_all(run.path());
  EXPECT_NE(message<WriteError>([&] { run.save(report(run.id()), true); }).find("run.json"), std::string::npos);
}

TEST_F(Save, RemovingARunDeletesOnlyTheDirectoriesThatItCreated) {
  for (const fs::path& results : {here_ / "a/b/c", here_ / "a/b/c/"}) {
    RunDirectory run(results, id);
    run.save(report(run.id()), true);
    run.remove();
    EXPECT_TRUE(fs::is_empty(here_)) << results;
  }
  fs::create_directory(results_);
  RunDirectory(results_, id).remove();
  EXPECT_TRUE(fs::is_directory(results_)) << "it existed before";
  RunDirectory first(here_ / "made", id), second(here_ / "made", id);
  first.remove();
  EXPECT_TRUE(fs::is_directory(second.path())) << "another run uses it";
}

TEST_F(Save, ASymbolicLinkIsReplacedAndNotFollowed) {
  RunDirectory run(results_, id);
  write(here_ / "precious", "keep");
  fs::create_symlink(here_ / "precious", run.path() / "run.json");
  run.save(report(run.id()), true);
  EXPECT_EQ(read_text(here_ / "precious", 100), "keep");
  EXPECT_FALSE(fs::is_symlink(run.path() / "run.json"));
}

TEST_F(Save, InvalidUtf8InAReportIsReplaced) {
  RunDirectory run(results_, id);
  Report odd = report(run.id());
  odd.config = {{"text", "\xff"}};
  run.save(odd, true);
  EXPECT_EQ(read_report(run.path() / "run.json").config["text"], "\xef\xbf\xbd");
}

TEST_F(Save, ARunIdConsistsOfTimeCommitAndMachine) {
  // The time in the run's name is 1795242657 s since 1970 (date -u -d @1795242657).
  const auto when = std::chrono::system_clock::from_time_t(1795242657);
  EXPECT_EQ(run_id(when, "a1b2c3d", "2xEPYC-5f3a"), "20261121T063057Z-a1b2c3d-2xEPYC-5f3a");
  EXPECT_EQ(run_id(when, "../x y", "\n"), "20261121T063057Z-.._x_y-_");
}

TEST_F(Save, RefusesNamesThatAreUnsafeAsFileNames) {
  std::vector<std::string> hostile = {"",
                                      ".",
                                      "..",
                                      "-",
                                      "-rf",
                                      "--out",
                                      "a/b",
                                      "/",
                                      "/etc/passwd",
                                      "../x",
                                      "..\\..",
                                      ".hidden",
                                      "a/../b",
                                      "./a",
                                      "a/",
                                      "//",
                                      "\n",
                                      "a\nb",
                                      "a\tb",
                                      "a\rb",
                                      "\x1b[31m",
                                      "\x7f",
                                      "\x01",
                                      "a\x1f",
                                      "\xff",
                                      "a\xc3",
                                      "\xed\xa0\x80",
                                      std::string("a\0b", 3),
                                      std::string(1, '\0'),
                                      std::string(129, 'a')};
  for (const auto& name : hostile) EXPECT_THROW(check_name(name, "baseline name"), UsageError) << name;
  EXPECT_GE(hostile.size(), 30u);
}

TEST_F(Save, AcceptsNamesThatAreSafeAsFileNames) {
  for (const char* name : {"main", "v1.2", "base-2", "a b", "größe", "a..b", "~x"})
    EXPECT_NO_THROW(check_name(name, "baseline name")) << name;
  EXPECT_NO_THROW(check_name(std::string(128, 'a'), "baseline name"));
}

TEST_F(Save, SavesAndReplacesABaselineByName) {
  EXPECT_EQ(save_baseline(report("one"), results_, "main"), results_ / "baselines/main.json");
  save_baseline(report("two"), results_, "main");
  EXPECT_EQ(read_report(find_run("main", results_)).id, "two");
  EXPECT_THROW(save_baseline(report("x"), results_, "../main"), UsageError);
}

TEST_F(Save, LatestOfSeveralRunsStartedInOneSecondIsTheRunWrittenLast) {
  const std::string second = "20261121T063057Z", first = second + "-fff-x", last = second + "-aaa-x";
  for (const std::string& name : {first, last}) RunDirectory(results_, name).save(report(name), true);
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(results_ / first / "run.json", now);
  fs::last_write_time(results_ / last / "run.json", now + std::chrono::milliseconds(300));
  EXPECT_EQ(read_report(find_run("latest", results_)).id, last);
  EXPECT_EQ(read_report(find_run("latest~1", results_)).id, first);
}

TEST(RunName, BeginsWithADateAndATimeInDigits) {
  EXPECT_TRUE(is_run_name("20261121T063057Z-x"));
  for (const char* wrong : {"20261121Tnoon00Z-x", "2026novvT063057Z-x", "20261121T063057Z", "20261121-063057Z-x"})
    EXPECT_FALSE(is_run_name(wrong)) << wrong;
}

TEST_F(Save, LatestRunIsTheOneWithTheLatestTimeInItsName) {
  for (const std::string& name :
       {id, id + "-02", std::string("20251121T063057Z-zzz-x"), std::string("20261121T063058Z-aaa-x")})
    RunDirectory(results_, name).save(report(name), true);
  fs::create_directories(results_ / "20271121T063058Z-empty-x");  // a directory without a report is not the latest run
  write(results_ / "baselines/run.json", "{}");
  write(results_ / "zzz/run.json", "{}");
  const auto found = [&](const std::string& run) { return read_report(find_run(run, results_)).id; };
  EXPECT_EQ(found("latest"), "20261121T063058Z-aaa-x");
  EXPECT_EQ(found("latest~1"), id + "-02");
  EXPECT_EQ(found("latest~2"), id);
  EXPECT_EQ(found("latest~3"), "20251121T063057Z-zzz-x");
  expect_contains(message<UsageError>([&] { find_run("latest~4", results_); }),
                  {"latest~4", "latest~3", results_.string()});
  for (const char* wrong : {"latest~", "latest~x", "latest~-1", "latest~1x"})
    EXPECT_THROW(find_run(wrong, results_), UsageError) << wrong;
}

TEST_F(Save, FindsARunByFileDirectoryOrName) {
  RunDirectory(results_, id).save(report(id), true);
  const fs::path file = results_ / id / "run.json";
  EXPECT_EQ(find_run(file.string(), "nowhere"), file);
  EXPECT_EQ(find_run((results_ / id).string(), "nowhere"), file);
  EXPECT_EQ(find_run(results_.string(), "nowhere"), file);
  EXPECT_EQ(find_run(id, results_), file);
}

TEST_F(Save, RefusesANameThatIsAlsoAPath) {
  save_baseline(report("one"), results_, "main");
  const fs::path before = fs::current_path();
  fs::current_path(here_);
  write(here_ / "main", "{}");
  const std::string refusal = message<UsageError>([&] { find_run("main", results_); });
  fs::current_path(before);
  EXPECT_NE(refusal.find("./main"), std::string::npos) << refusal;
}

TEST_F(Save, ANameCountsAsAnUnsavedBaselineOnlyIfNoBaselineRunOrFileHasThisName) {
  save_baseline(report("one"), results_, "main");
  RunDirectory(results_, id).save(report(id), true);
  EXPECT_TRUE(is_unsaved_baseline("next", results_));
  for (const std::string& run : {std::string("main"), id, std::string("latest"), std::string("latest~3"),
                                 std::string("a/b"), std::string("typo.json"), std::string()})
    EXPECT_FALSE(is_unsaved_baseline(run, results_)) << run;
}

TEST_F(Save, NamesAMissingRunAndTheSearchedDirectory) {
  const std::string refusal = message<UsageError>([&] { find_run("nothing", results_); });
  EXPECT_NE(refusal.find("'nothing'"), std::string::npos);
  EXPECT_NE(refusal.find((results_ / "baselines").string()), std::string::npos);
  EXPECT_THROW(find_run("", results_), UsageError);
  EXPECT_THROW(find_run("../nothing", results_), UsageError);
}

TEST_F(Save, AReportAboveTheSizeLimitIsRefusedBeforeItIsRead) {
  write(here_ / "huge.json", "");
  fs::resize_file(here_ / "huge.json", (uint64_t{512} << 20) + 1);
  const std::string refusal = message<UsageError>([&] { read_report(here_ / "huge.json"); });
  expect_contains(refusal, {(here_ / "huge.json").string(), "512 MiB"});
  EXPECT_THROW(read_text("/dev/zero", 1 << 20), UsageError) << "endless, with no size to check";
}

TEST_F(Save, RefusesBrokenReportsWithTheFileName) {
  const std::string good = to_json(report(id)).dump();
  const std::vector<std::string> broken = {"",
                                           "{",
                                           good.substr(0, good.size() / 2),
                                           "[]",
                                           "null",
                                           "{\"schema\":\"other\"}",
                                           std::string(1000000, '['),
                                           "{\"a\":NaN}",
                                           "{\"schema\":\"\xff\"}",
                                           good + good};
  for (const auto& text : broken) {
    write(here_ / "broken.json", text);
    const std::string refusal = message<UsageError>([&] { read_report(here_ / "broken.json"); });
    EXPECT_TRUE(refusal.starts_with((here_ / "broken.json").string() + ": ")) << refusal;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << "one line";
  }
  EXPECT_THROW(read_report(here_), UsageError) << "a directory";
  EXPECT_THROW(read_report(here_ / "absent.json"), UsageError);
}

}  // namespace
}  // namespace dpbench
