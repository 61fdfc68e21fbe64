// The Python interpreter that hosts the worker, for strategies and models written in Python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dpbench {

struct PythonHost {
  std::string interpreter;             // path of the interpreter; empty: no plug-in is a Python file
  std::vector<std::string> arguments;  // the interpreter's arguments; the worker's arguments follow them
};

// True if the plug-in is a Python file.
bool is_python(const std::string& plugin);

// Returns the Python host for these plug-ins. `asked` is the value of --python; empty: python3 on PATH. Throws
// UsageError if there is no such interpreter, or if the worker was installed without its library for Python.
PythonHost find_python_host(const std::filesystem::path& worker, const std::vector<std::string>& plugins,
                            const std::string& asked);

// Returns the path of a file in dpbench's own Python package, such as "module_model.py", which has the model of --model
// MODULE:CLASS.
std::filesystem::path shipped_file(const std::filesystem::path& worker, const std::string& name);

}  // namespace dpbench
