#include "harness/front/cli/collectives_flags.h"

#include "harness/front/cli/flags.h"
#include "workloads/base/kinds.h"

namespace dpbench {
namespace {

CLI::Option* add_size(CLI::App& app, const char* name, int64_t& bytes, const char* help) {
  return app.add_option(name, bytes, help)
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(between(4, 1 << 30));
}

}  // namespace

void add_collectives_flags(CLI::App& app, CollectivesOptions& o) {
  const auto what = in_group("What to measure");
  what(add_values(app, "--collective", o.collectives,
                  "allreduce, reduce, reduce_scatter, allgather, broadcast,\ngather, scatter, alltoall, sendrecv or "
                  "barrier [all]")
           ->check(each(one_of(names_list<CollectiveName>()))),
       "NAME,..");
  what(add_values(app, "--dtype", o.dtypes, "types of the elements [f32]")
           ->check(each(one_of(names_list<ElementName>()))),
       "f32|f64|bf16|i32|i64");
  what(add_values(app, "--op", o.ops, "reductions [sum]")->check(each(one_of(names_list<ReductionName>()))),
       "sum|max|min|product");
  what(app.add_flag("--in-place", o.in_place, "measure reduce_scatter and allgather in place too"), "");
  what(app.add_flag("--pairs", o.pairs, "measure only sends from each rank to each other, up to 16 MiB")
           ->excludes("--collective", "--dtype", "--op", "--in-place"),
       "");
  what(add_size(app, "--min-bytes", o.least_bytes, "smallest size [4]"), "SIZE");
  what(add_size(app, "--max-bytes", o.most_bytes, "largest size [256MiB]"), "SIZE");
  what(app.add_option("--factor", o.factor, "factor between sizes [4]")->check(between(2, 1024)), "N");
  const auto where = in_group("Ranks");
  where(add_values(app, "--world", o.worlds, "numbers of ranks [2; under torchrun, mpirun or srun: all]")
            ->check(each(between(1, most_world))),
        "N,..");
  where(add_values(app, "--backend", o.backends, "libraries to measure [all that take tensors of the device]"),
        "NAME,..");
  add_named<Device>(app, "--device", o.cuda, "device of the tensors [cpu]")->group("Ranks");
  add_output(app, o.output, {Form::table, Form::json});
}

}  // namespace dpbench
