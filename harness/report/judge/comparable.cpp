#include "harness/report/judge/comparable.h"

#include <algorithm>
#include <string>

#include "harness/report/machine/environment.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Fields of the env block (a report's machine facts) in which two compared runs may differ. A difference is only
// reported, because it may be the change under test.
const std::vector<std::string> reported_fields = {"/versions/torch", "/versions/cuda",     "/versions/nccl",
                                                  "/os/kernel",      "/os/libc",           "/os/container",
                                                  "/cpu/microcode",  "/memory/total_bytes"};

// Returns the dotted name of a JSON pointer: "/gpus/*/name" becomes gpus.name.
std::string dotted_name(const std::string& pointer) {
  std::string name;
  for (size_t i = 1; i < pointer.size(); ++i) {
    if (pointer.compare(i, 2, "*/") == 0)
      ++i;
    else
      name += pointer[i] == '/' ? '.' : pointer[i];
  }
  return name;
}

std::string shown(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

void add_differences(const Json& base, const Json& now, const std::vector<std::string>& fields,
                     std::vector<Difference>& all) {
  for (const std::string& field : fields) {
    const Json before = field_of(base, field), after = field_of(now, field);
    if (before != after) all.push_back({dotted_name(field), shown(before), shown(after)});
  }
}

std::string sentence(const std::vector<Difference>& differences) {
  std::string text;
  for (const Difference& d : differences) {
    if (!text.empty()) text += "; ";
    text += d.field + " is " + d.base + " in the base run, " + d.now + " in the new one";
  }
  return text;
}

Json run_settings(const CaseSpec& spec) {
  return {{"threads", spec.threads},
          {"processes", spec.processes},
          {"clip_norm", spec.clip_norm ? Json(*spec.clip_norm) : Json(nullptr)},
          {"data", spec.data_dir.empty() ? "drawn digits" : "files"},
          {"oversubscribe", spec.oversubscribe}};
}

}  // namespace

void require_equal_machines(const Report& base, const Report& now) {
  std::vector<Difference> differences;
  add_differences(base.env, now.env, comparable_fields(), differences);
  if (differences.empty()) return;
  throw UsageError("the machines differ: " + sentence(differences) +
                   ". Use --fail-on ratio-to-baseline:5%, which works across machines, or --allow-env-diff");
}

void require_equal_settings(const Report& base, const Report& now) {
  const CaseIndex known = by_id(base);
  for (const CaseRecord& record : now.cases) {
    const auto found = known.find(record.spec.id);
    if (found == known.end()) continue;
    const Json before = run_settings(found->second->spec), after = run_settings(record.spec);
    std::vector<Difference> differences;
    for (const auto& [key, value] : before.items())
      if (value != after[key]) differences.push_back({key, shown(value), shown(after[key])});
    if (!differences.empty())
      throw UsageError("the settings of " + record.spec.id + " differ: " + sentence(differences) +
                       ". Use the same flags for both runs, including --threads, or --allow-env-diff");
  }
}

std::vector<Difference> differences_of(const Report& base, const Report& now) {
  std::vector<Difference> differences;
  add_differences(base.env, now.env, comparable_fields(), differences);
  add_differences(base.env, now.env, reported_fields, differences);
  const Json before = {{"dpbench", base.tool}}, after = {{"dpbench", now.tool}};
  add_differences(before, after, {"/dpbench/version", "/dpbench/commit", "/dpbench/compiler", "/dpbench/build_type"},
                  differences);
  return differences;
}

}  // namespace dpbench
