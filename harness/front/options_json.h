// The config block of a report: the options as they were understood.
#pragma once

#include "harness/front/options.h"
#include "harness/report/protocol.h"

namespace dpbench {

Json options_json(const Options& options);

}  // namespace dpbench
