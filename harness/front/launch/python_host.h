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

// Returns the path of the interpreter. `asked` is the value of --python; empty: python3 on PATH. Throws UsageError if
// there is no such interpreter.
std::string find_interpreter(const std::string& asked);

// The torch that an interpreter imports. Both texts are empty if it has none.
struct InterpreterTorch {
  std::string version, folder;  // such as "2.11.0+cpu"
};

// Finds an interpreter's torch without importing it, which would take seconds.
InterpreterTorch torch_of_interpreter(const std::string& interpreter);

// Returns the Python host for these plug-ins. `asked` is the value of --python; empty: python3 on PATH. Throws
// UsageError if there is no such interpreter, or if the worker was installed without its library for Python.
PythonHost find_python_host(const std::filesystem::path& worker, const std::vector<std::string>& plugins,
                            const std::string& asked);

// Returns the path of a file in dpbench's own Python package, such as "module_model.py", which has the model of --model
// MODULE:CLASS.
std::filesystem::path shipped_file(const std::filesystem::path& worker, const std::string& name);

}  // namespace dpbench
