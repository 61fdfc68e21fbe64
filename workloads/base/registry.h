// A table of named entries, filled by static initialisers (before main, or when a plug-in is loaded). There is one
// table each for workloads, strategies and backends, all in the library dpbench_core.
#pragma once

#include <deque>
#include <functional>
#include <stdexcept>
#include <string>

#include "workloads/base/error.h"

namespace dpbench {

// Calls `add`, which registers an entry in a table. If `add` throws, keeps the error, and require_valid_registrations()
// throws it later: an exception that leaves a static initialiser would end the process.
void register_or_note(const std::function<void()>& add);
// Throws UsageError, prefixed with `origin`, if a registration has failed since the last call.
void require_valid_registrations(const std::string& origin);
// Throws UsageError if a required field of an entry is not set. kind: "strategy", "workload" or "backend". name: the
// entry's name.
void require_field(bool set, const std::string& kind, const std::string& name, const std::string& field);

template <class Info>
class Registry {
 public:
  void add(Info info) {
    if (find(info.name)) throw std::logic_error("'" + info.name + "' is registered twice");
    entries_.push_back(std::move(info));
  }

  const Info* find(const std::string& name) const {
    for (const auto& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }

  const Info& at(const std::string& name) const {
    if (const Info* found = find(name)) return *found;
    std::string known;
    for (const auto& entry : entries_) known += (known.empty() ? "" : ", ") + entry.name;
    throw UsageError("unknown name '" + name + "' (known: " + known + ")");
  }

  // Returns all entries. Entries never move in memory, so references to them stay valid while plug-ins add more.
  const std::deque<Info>& all() const { return entries_; }

 private:
  std::deque<Info> entries_;
};

}  // namespace dpbench
