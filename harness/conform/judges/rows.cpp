#include "harness/conform/judges/rows.h"

#include <cmath>
#include <stdexcept>

#include "harness/report/record/checks.h"

namespace dpbench {
namespace {

double used_up(const CheckRow& row) {
  if (!row.error) return 0;
  if (!row.bound) return *row.error;
  return *row.bound > 0 ? *row.error / *row.bound : *row.error;
}

// True if a check's new result replaces the known result in the check's row: the worse result stays. Of two failures
// the first stays, because later ones are often its consequences.
bool replaces(const CheckRow& fresh, const CheckRow& known) {
  if (severity_of(fresh) != severity_of(known)) return severity_of(fresh) > severity_of(known);
  return fresh.status != CheckStatus::failed && used_up(fresh) > used_up(known);
}

}  // namespace

void Rows::measured(const std::string& name, const std::string& compared, double error, double bound,
                    const LazyText& where, const LazyText& likely) {
  const bool ok = error <= bound;
  // JSON cannot represent infinity or NaN, so a row with a non-finite error shows no error.
  const auto shown = std::isfinite(error) ? std::optional(error) : std::nullopt;
  add({name, ok ? CheckStatus::passed : CheckStatus::failed, compared, shown, bound, ok ? "" : where(),
       ok ? "" : likely()});
}

void Rows::judged(const std::string& name, const std::string& compared, bool ok, const LazyText& where,
                  const LazyText& likely) {
  add({name, ok ? CheckStatus::passed : CheckStatus::failed, compared, {}, {}, ok ? "" : where(), ok ? "" : likely()});
}

void Rows::skipped(const std::string& name, const std::string& compared, const std::string& why,
                   std::optional<double> error) {
  add({name, CheckStatus::skipped, compared, error, {}, why, ""});
}

void Rows::completed(bool ok, const LazyText& where) {
  judged(completion, "every step on every rank, without an exception", ok, where);
}

void Rows::add(const CheckRow& row) {
  if (!find_check(row.name))
    throw std::logic_error("check '" + row.name + "' has no entry in harness/report/record/checks.h");
  for (auto& known : rows_) {
    if (known.name != row.name) continue;
    if (replaces(row, known)) known = row;
    return;
  }
  rows_.push_back(row);
}

const CheckRow* Rows::find(const std::string& name) const {
  for (const auto& row : rows_)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace dpbench
