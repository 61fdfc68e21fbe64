// The flag --tag: notes that a run keeps in its report.
#pragma once

#include <map>
#include <string>

namespace CLI {
class App;
}

namespace dpbench {

void add_tags(CLI::App& app, std::map<std::string, std::string>& tags);

}  // namespace dpbench
