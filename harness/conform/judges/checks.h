// Every check of the conformance kit with its meaning: `dpbench list checks`. No verdict has another name.
#pragma once

#include <string>
#include <vector>

namespace dpbench {

struct CheckMeaning {
  std::string name, summary;
};

const std::vector<CheckMeaning>& check_meanings();

// Throws std::logic_error unless `name` is in the table.
void require_check_meaning(const std::string& name);

}  // namespace dpbench
