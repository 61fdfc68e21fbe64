// Registers strategies and workloads that are written in Python. Their fields have the names of the fields of the C++
// registrations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Dict.h>

namespace dpbench::python {

using Fields = c10::Dict<std::string, std::string>;

// id: the number by which Python knows the class. fields: of StrategyInfo, as text; switches are "on" or "off", lists
// are divided by commas. Settings are "settings.small_buckets" = "bucket_mb=1,hook=none" and so on. promises: true if
// Python is asked to adjust the fields to parameter values (StrategyInfo::promise). params: name, default, summary and
// allowed values of each parameter. Throws UsageError for an unknown field or value.
void register_strategy(int64_t id, const Fields& fields, bool promises, const std::vector<std::string>& params);

// fields: name, summary, scaling, batch, samples, test_samples and the fields of OptimizerSpec, all as text.
void register_workload(int64_t id, const Fields& fields);

}  // namespace dpbench::python
