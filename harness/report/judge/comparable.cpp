#include "harness/report/judge/comparable.h"

#include <algorithm>
#include <string>

#include "harness/report/machine/environment.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// What may be the very thing that is compared: said, never refused.
const std::vector<std::string> told_fields = {"/versions/torch", "/versions/cuda",     "/versions/nccl",
                                              "/os/kernel",      "/os/libc",           "/os/container",
                                              "/cpu/microcode",  "/memory/total_bytes"};

// "/gpus/*/name" -> gpus.name
std::string spoken(const std::string& pointer) {
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
    if (before != after) all.push_back({spoken(field), shown(before), shown(after)});
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

Json how_run(const CaseSpec& spec) {
  return {{"threads", spec.threads},
          {"processes", spec.processes},
          {"clip_norm", spec.clip_norm ? Json(*spec.clip_norm) : Json(nullptr)},
          {"data", spec.data_dir.empty() ? "drawn digits" : "files"},
          {"oversubscribe", spec.oversubscribe}};
}

}  // namespace

void refuse_unlike_machines(const Report& base, const Report& now) {
  std::vector<Difference> differences;
  add_differences(base.env, now.env, comparable_fields(), differences);
  if (differences.empty()) return;
  throw UsageError("unlike machines: " + sentence(differences) +
                   " (--fail-on ratio-to-baseline:5% holds across machines; --allow-env-diff compares all the same)");
}

void refuse_unlike_cases(const Report& base, const Report& now) {
  const CaseIndex known = by_id(base);
  for (const CaseRecord& record : now.cases) {
    const auto found = known.find(record.spec.id);
    if (found == known.end()) continue;
    const Json was = how_run(found->second->spec), is = how_run(record.spec);
    std::vector<Difference> differences;
    for (const auto& [key, value] : was.items())
      if (value != is[key]) differences.push_back({key, shown(value), shown(is[key])});
    if (!differences.empty())
      throw UsageError("unlike configurations of " + record.spec.id + ": " + sentence(differences) +
                       " (give both runs the same flags, --threads too; --allow-env-diff compares all the same)");
  }
}

std::vector<Difference> differences_of(const Report& base, const Report& now) {
  std::vector<Difference> differences;
  add_differences(base.env, now.env, comparable_fields(), differences);
  add_differences(base.env, now.env, told_fields, differences);
  const Json before = {{"dpbench", base.tool}}, after = {{"dpbench", now.tool}};
  add_differences(before, after, {"/dpbench/version", "/dpbench/commit", "/dpbench/compiler", "/dpbench/build_type"},
                  differences);
  return differences;
}

}  // namespace dpbench
