// Locates the worker program (dpbench-worker) and loads its catalogue of strategies, workloads and backends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/launch/python_host.h"
#include "harness/front/plan/catalogue.h"

namespace dpbench {

// Returns the path $DPBENCH_WORKER, or the worker next to this program or in ../libexec/dpbench. Throws UsageError if
// there is no worker.
std::filesystem::path find_worker();

// Returns the worker program of another build. `build` is its dpbench or dpbench-worker program, its build or install
// directory, or its source checkout. Throws UsageError listing the paths tried.
std::filesystem::path worker_of_build(const std::string& build);

// Makes the paths of the plug-ins absolute. Throws UsageError unless each contains a '/' but no ':', and is a regular
// file that only this user and root can modify. Adds dpbench's own Python files if the selection needs them: for
// PyTorch's own strategies (names that begin with "py-") and for --model MODULE:CLASS. Such a model becomes the
// selection's only workload.
void settle_plugins(Selection& what, const std::filesystem::path& worker);

// Starts the worker program and queries its catalogue, which also proves that the worker finds its libraries. The CUDA
// libraries are loaded only if there is a GPU. answer_s: limit on the seconds that the interpreter `host` may
// take. Throws UsageError with the worker's output.
Catalogue query_catalogue(const std::filesystem::path& worker, const std::vector<std::string>& plugins,
                          const PythonHost& host = {}, double answer_s = 0);

// Starts the worker program and returns its table of the parameters of a workload's model, as parameters_json()
// describes it. model: value of --model; empty: the workload's default. python: value of --python. answer_s: limit on
// the seconds that an interpreter may take for Python files. Throws UsageError with the worker's output.
Json query_parameters(const std::filesystem::path& worker, const std::string& workload, const std::string& model,
                      const std::vector<std::string>& plugins, const std::string& python, double answer_s);

// Starts the worker program and returns for each choice of parameter values the reason for which the strategy refuses
// the choice; empty if the strategy accepts it. choices: the texts of JSON objects, as the worker's refusals()
// describes them. python and answer_s: as above. Throws UsageError with the worker's output.
std::vector<std::string> query_refusals(const std::filesystem::path& worker, const std::vector<std::string>& choices,
                                        const std::vector<std::string>& plugins, const std::string& python,
                                        double answer_s);

// Returns the catalogue from catalogue.json next to the worker program. Queries the worker instead if the file may be
// stale or if there are plug-ins, which only the worker can load. python and answer_s: as above; not
// used without plug-ins.
Catalogue load_catalogue(const std::filesystem::path& worker, const std::vector<std::string>& plugins,
                         const std::string& python = "", double answer_s = 0);

// Returns the LibTorch version that the worker was built with.
std::string torch_of(const std::filesystem::path& worker);

}  // namespace dpbench
