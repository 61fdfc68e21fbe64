// Registers strategies, a workload and a backend whose registrations are incomplete or contradict each other.
#include "strategies/api/backend.h"
#include "strategies/api/trained.h"

namespace {

using namespace dpbench;

std::unique_ptr<Strategy> none(const Setup&) { return nullptr; }

const RegisterStrategy no_make{{.name = "no-make", .summary = ""}};
const RegisterStrategy no_interval{{.name = "no-interval", .summary = "", .gradient = Gradient::local, .make = none}};
const RegisterStrategy no_device{{.name = "no-device", .summary = "", .cpu = false, .cuda = false, .make = none}};
const RegisterStrategy no_parameter{
    {.name = "no-parameter", .summary = "", .settings = {.revealing = {{"bucket_kb", "1"}}}, .make = none}};
const RegisterStrategy twice{{.name = "ddp", .summary = "", .make = none}};
const RegisterWorkload no_model{{.name = "no-model", .summary = ""}};
const RegisterBackend no_backend_made{{.name = "no-backend", .summary = ""}};

}  // namespace
