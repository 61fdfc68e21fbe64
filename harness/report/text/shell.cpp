#include "harness/report/text/shell.h"

namespace dpbench {
namespace {

std::string& program_name() {
  static std::string name = "dpbench";
  return name;
}

}  // namespace

void set_program_name(const std::string& name) { program_name() = name.empty() ? "dpbench" : name; }

std::string shell_command(const std::string& arguments) { return shell_word(program_name()) + " " + arguments; }

std::string shell_word(const std::string& text) {
  if (text.find_first_of(" \t\n'\"\\$`&|;<>()*?[]{}~#!") == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace dpbench
