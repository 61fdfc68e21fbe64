// dpbench doctor and dpbench env. `env` describes the machine; `doctor` checks what dpbench needs there, and gives the
// command that installs a missing component.
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/launch/python_host.h"
#include "harness/front/launch/worker_program.h"
#include "harness/front/process/scratch.h"
#include "harness/front/process/spawn.h"
#include "harness/front/run/table.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/gpu_survey.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

struct EnvOptions {
  Form output = Form::table;
};

struct DoctorOptions : EnvOptions {
  std::string python;  // value of --python; empty: python3 on PATH
};

void add_doctor_flags(CLI::App& app, DoctorOptions& o) {
  app.add_option("--python", o.python, "interpreter for Python files, with its torch [python3]")->type_name("PROGRAM");
  add_output(app, o.output, {Form::table, Form::json});
}

void add_flags(CLI::App& app, EnvOptions& o) { add_output(app, o.output, {Form::table, Form::json}); }

enum class Finding { good, note, bad };

struct Check {
  Finding finding;
  std::string what, found, remedy;
};

Check worker_check(fs::path& worker) {
  try {
    worker = find_worker();
    return {Finding::good, "worker", worker.string(), ""};
  } catch (const UsageError& error) {
    return {Finding::bad, "worker", error.what(), "scripts/dpbench (builds it)"};
  }
}

Check catalogue_check(const fs::path& worker, Catalogue& catalogue) {
  try {
    catalogue = query_catalogue(worker, {});
    return {Finding::good, "LibTorch",
            catalogue.torch + ", " + std::to_string(catalogue.strategies.size()) + " strategies", ""};
  } catch (const UsageError& error) {
    return {Finding::bad, "LibTorch", error.what(),
            "scripts/dpbench (finds or fetches a LibTorch and builds against it)"};
  }
}

std::string venv_with_torch(const Catalogue& catalogue) {
  return "python3 -m venv torch && torch/bin/pip install torch==" + catalogue.torch;
}

// Checks the interpreter of Python plug-ins. A run without such plug-ins needs none, so a fault is only a note, unless
// the user named the interpreter.
Check python_check(const fs::path& worker, const Catalogue& catalogue, const std::string& asked) {
  const Finding fault = asked.empty() ? Finding::note : Finding::bad;
  const std::string other = venv_with_torch(catalogue) + ", then --python torch/bin/python";
  try {
    shipped_file(worker, "host.py");
  } catch (const UsageError& error) {
    return {fault, "Python", error.what(), "scripts/dpbench (builds it)"};
  }
  std::string interpreter;
  try {
    interpreter = find_interpreter(asked);
  } catch (const UsageError& error) {
    return {fault, "Python", error.what(), other};
  }
  const InterpreterTorch torch = torch_of_interpreter(interpreter);
  const std::string shown = sanitised(interpreter);
  if (torch.version.empty()) return {fault, "Python", shown + " has no torch", other};
  const std::string found = shown + ", torch " + sanitised(torch.version);
  if (torch.version.substr(0, torch.version.find('+')) == catalogue.torch)
    return {Finding::good, "Python", found + ", for which dpbench is built", ""};
  return {fault, "Python", found + ", but dpbench was built with " + catalogue.torch,
          "DPBENCH_TORCH=" + shell_word(torch.folder) + " scripts/dpbench doctor (builds for it once); or " + other};
}

// Returns the commands that install what a build with CUDA needs and build dpbench again. A torch wheel brings the CUDA
// libraries and NCCL's header, but no compiler.
std::string cuda_remedy(const Catalogue& catalogue) {
  const std::string toolkit = "apt-get install cuda-toolkit (of NVIDIA's: developer.nvidia.com/cuda-downloads); ";
  return (catalogue.cuda.empty() ? toolkit : "") + venv_with_torch(catalogue) +
         " && DPBENCH_TORCH=torch scripts/dpbench doctor";
}

std::vector<Check> gpu_checks(const Catalogue& catalogue) {
  const GpuSurvey survey = survey_gpus();
  const Machine machine = detect_machine(survey.accelerators, survey.why_none);
  std::vector<Check> checks;
  if (machine.gpus.empty())
    checks.push_back({Finding::note, "GPUs", "none (" + machine.no_gpu_reason + ")",
                      "on the CPU: " + shell_command("--strategy ddp --cpus 2") +
                          "; for an NVIDIA card: apt-get install nvidia-driver (Debian's non-free)"});
  else
    checks.push_back(
        {Finding::good, "GPUs", std::to_string(machine.gpus.size()) + " x " + sanitised(machine.gpus[0].name), ""});
  for (const auto& missing : catalogue.not_built)
    checks.push_back({machine.gpus.empty() ? Finding::note : Finding::bad, missing.kind + " " + missing.name,
                      why_missing(catalogue, missing), cuda_remedy(catalogue)});
  return checks;
}

Check memory_check() {
  struct statvfs space{};
  const bool there = ::statvfs("/dev/shm", &space) == 0;
  const uint64_t mib = there ? uint64_t{space.f_bavail} * space.f_frsize >> 20 : 0;
  if (mib >= 256) return {Finding::good, "shared memory", std::to_string(mib) + " MiB free in /dev/shm", ""};
  return {Finding::note, "shared memory", std::to_string(mib) + " MiB free in /dev/shm",
          "in a container: docker run --shm-size=1g ..; otherwise private files go to TMPDIR"};
}

// Checks that the default results directory is writable; if it does not exist yet, checks the working directory.
Check results_check() {
  const std::string results = MeasuringOptions().out_dir, elsewhere = shell_command("--out DIR");
  std::error_code none;
  const fs::file_status there = fs::status(results, none);
  if (fs::exists(there) && !fs::is_directory(there))
    return {Finding::bad, "results directory", results + " is a file",
            "mv " + results + " " + results + ".old, or " + elsewhere};
  const std::string folder = fs::exists(there) ? results : ".",
                    shown = fs::exists(there) ? results : "working directory";
  const bool writable = ::access(folder.c_str(), W_OK | X_OK) == 0;
  return {writable ? Finding::good : Finding::bad, "results directory",
          shown + (writable ? " can be written" : " cannot be written"),
          writable ? "" : "chmod u+wx " + folder + ", or " + elsewhere};
}

std::string mark(Finding finding) {
  return finding == Finding::good ? "ok" : finding == Finding::note ? "note" : "MISSING";
}

std::vector<Check> all_checks(const std::string& python) {
  fs::path worker;
  Catalogue catalogue;
  std::vector<Check> checks = {worker_check(worker)};
  if (!worker.empty()) checks.push_back(catalogue_check(worker, catalogue));
  if (!catalogue.torch.empty()) checks.push_back(python_check(worker, catalogue, python));
  for (auto& check : gpu_checks(catalogue)) checks.push_back(std::move(check));
  checks.push_back(memory_check());
  checks.push_back(results_check());
  return checks;
}

int doctor(const DoctorOptions& options) {
  const auto checks = all_checks(options.python);
  std::vector<Cells> rows = {{"STATE", "WHAT", "FOUND", "REMEDY"}};
  Json json = Json::array();
  bool bad = false;
  for (const auto& check : checks) {
    rows.push_back({mark(check.finding), check.what, check.found, check.remedy});
    json.push_back(
        {{"state", mark(check.finding)}, {"what", check.what}, {"found", check.found}, {"remedy", check.remedy}});
    bad = bad || check.finding == Finding::bad;
  }
  const bool printed =
      print(options.output == Form::json ? json.dump(1) + "\n" : aligned(rows, {false, false, false, false}));
  return exit_code({.usage = bad, .unsaved = !printed});
}

// Adds a table row for each value in nested JSON. A list of plain values becomes a single row.
void add_rows(std::vector<Cells>& rows, const std::string& key, const Json& value) {
  const auto text = [](const Json& one) { return sanitised(one.is_string() ? one.get<std::string>() : one.dump()); };
  if (value.is_null()) return;
  if (!value.is_structured()) return rows.push_back({key, text(value)});
  if (value.is_array() && std::ranges::none_of(value, [](const Json& one) { return one.is_structured(); })) {
    std::vector<std::string> texts;
    for (const Json& one : value) texts.push_back(text(one));
    if (!texts.empty()) rows.push_back({key, join(texts, " ")});
    return;
  }
  for (const auto& [name, inner] : value.items()) add_rows(rows, key.empty() ? name : key + "/" + name, inner);
}

// Adds two reasons to the machine description, for the text output: why there is no GPU, and, to the CUDA and NCCL
// versions, why the backend nccl is missing: one library of dpbench uses both CUDA and NCCL.
Json with_reasons(Json env, const GpuSurvey& survey, const Catalogue& catalogue) {
  if (env["gpus"].empty()) env["gpus"] = "none (" + survey.why_none + ")";
  const auto nccl = std::ranges::find(catalogue.not_built, "nccl", &NotBuilt::name);
  if (nccl == catalogue.not_built.end()) return env;
  for (const char* library : {"cuda", "nccl"})
    if (Json& version = env["versions"][library]; version.is_string())
      version = version.get<std::string>() + " (" + why_missing(catalogue, *nccl) + ")";
  return env;
}

int env(const EnvOptions& options) {
  const GpuSurvey survey = survey_gpus();
  Catalogue catalogue;
  try {
    catalogue = load_catalogue(find_worker(), {});
  } catch (const UsageError&) {  // without a worker program, describe the machine without the worker's versions
  }
  const Json block = environment(this_machine(), survey.accelerators, versions_of(catalogue));
  if (options.output == Form::json) return exit_code({.unsaved = !print(json_text(block))});
  std::vector<Cells> rows;
  add_rows(rows, "", with_reasons(block, survey, catalogue));
  return exit_code({.unsaved = !print(aligned(rows, {false, false}))});
}

}  // namespace

Command doctor_command() {
  return reading_command({.name = "doctor",
                          .arguments = "[FLAGS]",
                          .summary = "report missing parts of this machine, with the commands that add them",
                          .examples = {{"doctor", ""}, {"doctor && dpbench", "run only if nothing is missing"}},
                          .exit_codes = {}},
                         add_doctor_flags, doctor);
}

Command env_command() {
  return reading_command({.name = "env",
                          .arguments = "[FLAGS]",
                          .summary = "print the machine as a report describes it",
                          .examples = {{"env", ""}, {"env -o json", ""}},
                          .exit_codes = {}},
                         add_flags, env);
}

}  // namespace dpbench
