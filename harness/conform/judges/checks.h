// The table of all conformance checks with their meanings, printed by `dpbench list checks`. Every check result uses a
// name from this table.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

struct CheckMeaning {
  std::string name, summary;
};

const std::vector<CheckMeaning>& check_meanings();

// Throws std::logic_error if no check of this name is in the table.
void require_check_meaning(const std::string& name);

}  // namespace dpbench
