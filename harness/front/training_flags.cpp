#include "harness/front/training_flags.h"

#include <filesystem>

#include "harness/front/text.h"
#include "harness/front/validators.h"
#include "harness/report/to_type.h"
#include "workloads/error.h"

namespace dpbench {

namespace {

// The flags that run has too choose one case here, not many.
void reword(CLI::App& app) {
  const auto say = [&](const char* flag, const char* help, const char* type) {
    app.get_option(flag)->description(help)->type_name(type);
  };
  say("--strategy", "how to train; cpu and gpu are one device", "NAME");
  say("--workload", "what to train", "NAME");
  say("--gpus", "on so many GPUs [all there are]", "N");
  say("--cpus", "on so many virtual CPU devices [all cores, where there is no GPU]", "N");
  say("--batch", "rows per device (weak) or in all (strong) [the workload's]", "N");
  app.remove_option(app.get_option("--filter"));
}

}  // namespace

void add_training(CLI::App& app, Options& o) {
  reword(app);
  TrainOptions& t = o.training;
  const auto put = [](CLI::Option* option, const char* type) { option->group("Training")->type_name(type); };
  put(app.add_option("--epochs", t.epochs, "passes over the data [the document's: 2; random-linear 1]")
          ->check(between(1, 1e6)),
      "N");
  put(app.add_flag("--show-shapes", t.show_shapes, "print the sizes that each replica's model gets and gives"), "");
  put(app.add_flag("--drop-last", t.drop_last, "leave out the rows that fill no whole batch on every rank"), "");
  put(app.add_flag("--eval", t.evaluate, "accuracy on the test rows after every epoch"), "");
  put(app.add_option("--target-accuracy", t.target_accuracy,
                     "stop once this part of the test rows is right; exit 1 if it never is")
          ->check(between(1e-9, 1, true)),
      "0..1");
  put(app.add_option("--save", t.save, "the trained model, as safetensors")->check(not_empty()), "FILE");
  put(app.add_option("--checkpoint-every", t.checkpoint_every, "steps between checkpoints [never]")
          ->check(between(1, 1e12)),
      "STEPS");
  put(app.add_option("--checkpoint", t.checkpoint, "where they go [checkpoint.safetensors in the run's directory]")
          ->check(not_empty()),
      "FILE");
  put(app.add_option("--resume", t.resume, "go on from a checkpoint, with the bits of a run that never stopped")
          ->check(not_empty()),
      "FILE");
}

void settle_training(Options& o) {
  o.launches = 1;
  o.what.baseline = false;
  o.what.one_place = o.what.whole_epochs = true;
  if (o.what.strategies.size() != 1 || o.what.workloads.size() != 1 || o.what.strategies[0] == "all" ||
      o.what.workloads[0] == "all")
    throw UsageError(
        "train wants one --strategy and one --workload, as in: " +
        to_type("train --workload mnist-mlp --strategy ddp --cpus 2"));
  if (!o.training.checkpoint.empty() && o.training.checkpoint_every == 0)
    throw UsageError("--checkpoint '" + one_line(o.training.checkpoint, 100) + "' needs --checkpoint-every STEPS");
  // One that cannot be looked at is refused by the worker, which knows what it is for.
  const auto place = [](const std::string& file) {
    std::error_code failed;
    std::filesystem::path path = std::filesystem::absolute(file, failed);
    if (!failed) path = std::filesystem::weakly_canonical(path, failed);
    return failed ? std::filesystem::path(file) : path;
  };
  if (!o.training.save.empty() && !o.training.checkpoint.empty() && place(o.training.save) == place(o.training.checkpoint))
    throw UsageError("--save and --checkpoint name the same file '" + one_line(o.training.save, 100) + "'");
}

}  // namespace dpbench
