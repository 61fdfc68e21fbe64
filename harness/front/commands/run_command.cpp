// dpbench run: times every planned case over several launches (starts of the worker processes).
#include "harness/front/cli/measuring_flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/run/timed_run.h"

namespace dpbench {

Command run_command() {
  return measuring_command<RunOptions, TimedRun>(
      {.name = "run",
       .arguments = "[FLAGS]",
       .summary = "measure strategies",
       .examples = {{"", "every strategy on the small models, in a minute"},
                    {"--strategy ddp --gpus 1,2,4,8", "scaling of one strategy over GPUs"},
                    {"--strategy dp,ddp --cpus 1,2 --workload mnist-mlp --scaling strong --batch 512", ""},
                    {"--strategy ddp --cpus 2 --param ddp.bucket_mb=1,25 -o markdown", ""},
                    {"--plugin ./my_strategy.so --strategy mine --cpus 2", ""},
                    {"report latest --html report.html", "charts and tables of the last run on one page"}},
       .exit_codes = {1, 3, 4, 77, 128}},
      add_run_flags, settle_run);
}

}  // namespace dpbench
