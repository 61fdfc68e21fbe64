// Registers strategies and workloads that are written in Python. The fields of a registration have the same names as in
// C++.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Dict.h>

namespace dpbench::python {

using Fields = c10::Dict<std::string, std::string>;

// id: the number by which Python knows the strategy's class. fields: the fields of StrategyInfo, as text: switches are
// "on" or "off", items of a list are separated by commas, and Settings are written as "settings.revealing" =
// "bucket_mb=1,hook=none". promises: true if Python must be asked which fields depend on parameter values
// (StrategyInfo::promise). params: four texts per parameter: name, default, summary and allowed values. Throws
// UsageError for an unknown field or value.
void register_strategy(int64_t id, const Fields& fields, bool promises, const std::vector<std::string>& params);

// Registers a workload written in Python. fields: name, summary, scaling, batch, samples, test_samples and the fields
// of OptimizerSpec, all as text; own_optimizer: true if an optimizer in Python updates the parameters;
// own_loss_terms: true if loss_terms() in Python counts the terms of a loss.
void register_workload(int64_t id, const Fields& fields);

}  // namespace dpbench::python
