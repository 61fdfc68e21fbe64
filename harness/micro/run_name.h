// Parses names of benchmarks, such as "allreduce/backend:shm/world:2/bytes:4/iterations:200".
#pragma once

#include <string>

namespace dpbench::micro {

// Returns the value of a key in a benchmark's name: "shm" for "backend". Returns `otherwise` if the key is missing.
inline std::string part_of(const std::string& name, const std::string& key, const std::string& otherwise = "") {
  const size_t at = name.find("/" + key + ":");
  if (at == std::string::npos) return otherwise;
  const size_t begin = at + key.size() + 2;
  return name.substr(begin, name.find('/', begin) - begin);
}

}  // namespace dpbench::micro
