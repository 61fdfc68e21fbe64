#include "harness/report/record/protocol.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/report/record/training.h"
#include "tests/support/contains.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

CaseSpec spec_without_defaults() {
  CaseSpec spec;
  spec.strategy = "ddp";
  spec.workload = "mnist-mlp";
  spec.device = Device::cuda;
  spec.world = 4;
  spec.processes = 4;
  spec.backend = "nccl";
  spec.scaling = Scaling::strong;
  spec.batch = 30;
  spec.dtype = Dtype::f64;
  spec.runtime = Runtime::fast;
  spec.params = {{"bucket_mb", "1"}, {"overlap", "off"}};
  spec.mesh = "dp=2,tp=2";
  spec.model = "tiny";
  spec.scale = 3;
  spec.accumulate = 2;
  spec.recompute = 4;
  spec.clip_norm = 0.5;
  spec.seed = 18446744073709551615u;
  spec.data_dir = "/data/mnist";
  spec.threads = 7;
  spec.oversubscribe = true;
  spec.baseline = true;
  spec.id = case_id(spec);
  return spec;
}

void expect_no_defaults(const Json& json, const Json& defaults) {
  for (const auto& [key, value] : json.items())
    EXPECT_NE(value.dump(), defaults[key].dump())
        << key << " has its default value, so the round trip would not notice its loss";
}

// Converts a message to text and parses it again, as the two ends of the socket do.
Json through_text(const Json& json) { return parse_json(json.dump(), "line"); }

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "the line", limits);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Protocol, ACaseSurvivesConversionToJsonAndBack) {
  const CaseSpec spec = spec_without_defaults();
  const CaseSpec back = case_from_json(through_text(to_json(spec)));
  EXPECT_EQ(back.id,
            "ddp/mnist-mlp/cuda:4/nccl/strong/b30/f64/fast/mesh=dp=2,tp=2/model=tiny/scale=3/accumulate=2/recompute=4/"
            "bucket_mb=1/overlap=off");
  EXPECT_EQ(back.seed, spec.seed);
  EXPECT_EQ(back.params, spec.params);
  EXPECT_EQ(back.clip_norm, 0.5);
  EXPECT_EQ(to_json(back), to_json(spec));
  expect_no_defaults(to_json(spec), to_json(CaseSpec{}));
}

TEST(Protocol, ProcessSettingsSurviveConversionToJsonAndBack) {
  CaseSpec spec = spec_without_defaults();
  spec.python = true;
  const ProcessSettings& settings = spec;
  const Json json = to_json(settings);
  EXPECT_TRUE(process_settings_from_json(through_text(json), "settings") == settings) << json;
  expect_no_defaults(json, to_json(ProcessSettings{}));
  EXPECT_FALSE(to_json(spec).contains("python"));
}

TEST(Protocol, AMissingClipNormSurvivesConversionToJsonAndBack) {
  CaseSpec spec;
  spec.id = "x";
  EXPECT_FALSE(case_from_json(through_text(to_json(spec))).clip_norm.has_value());
}

TEST(Protocol, SamplingSettingsSurviveConversionToJsonAndBack) {
  const Sampling sampling{.warmup = 3,
                          .samples = 4,
                          .steps = 5,
                          .min_sample_s = 0.25,
                          .max_time_s = 7,
                          .measure_peak = true,
                          .audit = false,
                          .trace_dir = "t"};
  EXPECT_EQ(to_json(sampling_from_json(through_text(to_json(sampling)))), to_json(sampling));
  expect_no_defaults(to_json(sampling), to_json(Sampling{}));
}

RankRecord full_record() {
  RankRecord record;
  record.rank = 1;
  record.threads = 2;
  record.steps_per_sample = 8;
  record.rows_per_step = 25;
  record.tokens_per_sample = 11;
  record.flop_per_sample = 1e6;
  record.model_parameters = 12, record.model_bytes = 48;
  record.samples_ns = {800, 9007199254740993};  // a double cannot represent the second time exactly
  record.step_p50_ns = 1;
  record.step_p90_ns = 2;
  record.step_p99_ns = 3;
  record.phases_ns = {{"forward", 0.5}, {"communication", 1.5}};
  record.peak_rss_bytes = int64_t{1} << 40;
  record.own_rss_bytes = int64_t{1} << 39;
  record.peak_device_bytes = 77;
  record.peak_device_reserved_bytes = 78;
  record.step_tensor_bytes = 79;
  record.peak = Peak{.gemm_flop_per_s = 5e10, .triad_bytes_per_s = 2e10};
  record.gpus = {{.pci_bus = "00000000:1B:00.0",
                  .readings = 4,
                  .mean_power_w = 400.5,
                  .most_power_w = 500.5,
                  .mean_sm_clock_mhz = 1900.5,
                  .least_sm_clock_mhz = 1800,
                  .least_memory_clock_mhz = 2619,
                  .most_temperature_c = 60,
                  .throttled_readings = 2,
                  .throttle_reasons = {"sw_power_cap", "hw_slowdown"}}};
  record.profile = {
      .steps = 12,
      .step_ns = 900.5,
      .collectives = {{.op = "allreduce", .phase = "backward", .bytes = 4096, .start_ns = 100.5, .end_ns = 250}},
      .ledger = {{.axis = "dp",
                  .op = "allreduce",
                  .calls = 1,
                  .bytes = 4096,
                  .phase_bytes = {{"backward", 4000}, {"none", 96}},
                  .formula_bytes = 2048,
                  .formula_calls = 2}},
      .collectives_per_step = 1,
      .collective_bytes_per_step = 4096,
      .communication_ns = 149.5,
      .exposed_ns = 49.5,
      .hidden_ns = 100,
      .waiting_ns = 9,
      .strategy_figures = {{"reducer_bucket_bytes", {4096}}},
      .flop = 123456789,
      .memory =
          MemoryParts{.parameters = 1, .gradients = 2, .state = 3, .activations = 4, .buffers = 5, .temporary = 6}};
  record.first_loss = 2.5;
  record.last_loss = 0.1;
  record.parameters_hash = "abcd";
  record.warnings = {"hot"};
  return record;
}

TEST(Protocol, TrainingOptionsAndRecordsSurviveConversionToJsonAndBack) {
  const TrainOptions options{.epochs = 3,
                             .drop_last = true,
                             .show_shapes = true,
                             .evaluate = true,
                             .target_accuracy = 0.5,
                             .save = "a",
                             .resume = "b",
                             .checkpoint = "c",
                             .checkpoint_every = 7,
                             .generate = 8};
  expect_no_defaults(to_json(options), to_json(TrainOptions{}));
  EXPECT_EQ(to_json(train_options_from_json(through_text(to_json(options)))), to_json(options));
  EXPECT_EQ(to_json(train_options_from_json(through_text(to_json(TrainOptions{})))), to_json(TrainOptions{}));
  const TrainingRecord record{.epochs = 2,
                              .steps_per_epoch = 3,
                              .steps = 6,
                              .resumed_at = 1,
                              .seconds = 0.5,
                              .samples_per_s = 10,
                              .data_fraction = 0.1,
                              .epoch_losses = {1.0 / 3},
                              .loss_curve = {2},
                              .accuracy = {0.5},
                              .target_accuracy = 0.9,
                              .time_to_accuracy_s = 3};
  expect_no_defaults(to_json(record), to_json(TrainingRecord{}));
  EXPECT_EQ(to_json(training_record_from_json(through_text(to_json(record)))), to_json(record));
}

TEST(Protocol, ARankRecordSurvivesConversionToJsonAndBack) {
  const RankRecord record = full_record();
  EXPECT_EQ(rank_record_from_json(through_text(to_json(record))).samples_ns, record.samples_ns);
  EXPECT_EQ(to_json(rank_record_from_json(through_text(to_json(record)))), to_json(record));
  expect_no_defaults(to_json(record), to_json(RankRecord{}));
}

TEST(Protocol, ANanLossIsSentAsNull) {
  RankRecord record = full_record();
  record.last_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(to_json(record).dump().find("\"last_loss\":null"), std::string::npos);
  EXPECT_TRUE(std::isnan(rank_record_from_json(through_text(to_json(record))).last_loss));
}

TEST(Protocol, ACheckResultSurvivesConversionToJsonAndBack) {
  const CheckRow row{.name = "gradient-vs-baseline",
                     .status = CheckStatus::failed,
                     .compared = "a with b",
                     .error = 1e-3,
                     .bound = 1e-12,
                     .detail = "fc.weight[3]",
                     .likely = "sum instead of mean"};
  EXPECT_EQ(to_json(check_row_from_json(through_text(to_json(row)))), to_json(row));
  EXPECT_FALSE(check_row_from_json(to_json(CheckRow{.name = "a", .status = CheckStatus::passed})).error.has_value());
}

TEST(Protocol, NamesTheKeyWhoseValueHasTheWrongType) {
  Json json = to_json(spec_without_defaults());
  json["world"] = "four";
  EXPECT_THROW(
      {
        try {
          case_from_json(json);
        } catch (const UsageError& error) {
          expect_contains(error.what(), {"case.world"});
          throw;
        }
      },
      UsageError);
}

TEST(Protocol, RefusesNumbersOutOfRange) {
  const Json good = to_json(spec_without_defaults());
  for (const Json& world : {Json(3000000000u), Json(-3000000000), Json(1.5), Json(0), Json(-1), Json(nullptr)}) {
    Json json = good;
    json["world"] = world;
    EXPECT_THROW(case_from_json(json), UsageError) << world;
  }
  Json negative_seed = good;
  negative_seed["seed"] = -1;
  EXPECT_THROW(case_from_json(negative_seed), UsageError);
}

TEST(Protocol, RefusesBlockTimesBelowOneNanosecondAndBlocksOfZeroSteps) {
  for (const int64_t sample : {0, -5}) {
    Json json = to_json(full_record());
    json["samples_ns"] = {100, sample};
    EXPECT_THROW(rank_record_from_json(json), UsageError) << sample;
  }
  Json no_steps = to_json(full_record());
  no_steps["steps_per_sample"] = 0;
  EXPECT_THROW(rank_record_from_json(no_steps), UsageError);
}

TEST(Protocol, ARankRecordMustHaveARankNumberButMayLackTimedBlocks) {
  Json json = to_json(full_record());
  json.erase("samples_ns");
  EXPECT_TRUE(rank_record_from_json(json).samples_ns.empty());
  json.erase("rank");
  EXPECT_THROW(rank_record_from_json(json), UsageError);
}

TEST(Protocol, IgnoresUnknownKeys) {
  Json json = to_json(full_record());
  json["of_a_later_version"] = {{"a", 1}};
  EXPECT_EQ(to_json(rank_record_from_json(json)), to_json(full_record()));
}

TEST(ParseJson, ParsesValidJson) {
  const Json json = parse_json(R"({"a":[1,-2,2.5,true,null,"é"],"b":{"a":18446744073709551615}})", "x");
  EXPECT_EQ(json.dump(), R"({"a":[1,-2,2.5,true,null,"é"],"b":{"a":18446744073709551615}})");
}

TEST(ParseJson, KeepsTheOrderOfKeys) { EXPECT_EQ(parse_json(R"({"z":1,"a":2})", "x").dump(), R"({"z":1,"a":2})"); }

TEST(ParseJson, RefusesInvalidJsonWithItsPosition) {
  expect_contains(refusal("{\"a\":1,\n \"b\":}"), {"the line", "JSON", "line 2, column 6"});
  for (const char* text :
       {"{\"a\":NaN}", "[Infinity]", "[1,]", "{\"a\":1", "1 2", "[1e999]", "{'a':1}", "[0x1]", "\x80"})
    expect_contains(refusal(text), {"the line", "JSON"});
}

TEST(ParseJson, RefusesEmptyText) {
  expect_contains(refusal(""), {"the line", "empty"});
  expect_contains(refusal(" \n"), {"the line", "empty"});
}

TEST(ParseJson, RefusesInvalidUtf8) {
  EXPECT_NE(refusal("{\"a\":\"\xff\xfe\"}"), "");
  EXPECT_NE(refusal("{\"\xc3\x28\":1}"), "");
  EXPECT_NE(refusal("[\"\xed\xa0\x80\"]"), "") << "a lone surrogate";
}

TEST(ParseJson, RefusesADuplicateKeyInOneObject) {
  expect_contains(refusal(R"({"a":1,"b":{"a":2},"a":3})"), {"the line", "'a'"});
  EXPECT_EQ(refusal(R"([{"a":1},{"a":2}])"), "");
}

TEST(ParseJson, RefusesDeepNesting) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(refusal(nested(64)), "");
  expect_contains(refusal(nested(65)), {"the line", "64"});
  expect_contains(refusal(std::string(1000000, '[')), {"the line", "64"});
}

TEST(ParseJson, ReadsAnObjectOf100001Keys) {
  std::string text = "{\"k\":0";
  for (int i = 0; i < 100000; ++i) text += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_EQ(parse_json(text + "}", "x").size(), 100001u);
}

TEST(ParseJson, RefusesTextBeyondTheLimitsOnBytesMemoryKeysAndNesting) {
  const JsonLimits small{.bytes = 100, .depth = 3, .memory = 245, .keys = 2};
  const auto refused = [&](const std::string& text) { return refusal(text, small); };
  EXPECT_EQ(refused("[1,2,3,4,5,6,7]"), "");
  expect_contains(refused("[1,2,3,4,5,6,7,8]"), {"the line", "0 MiB"});
  expect_contains(refused("[[],{},[],[],[]]"), {"the line", "0 MiB"});
  EXPECT_EQ(refused(R"({"a":1,"b":2})"), "");
  expect_contains(refused(R"({"a":1,"b":2,"c":3})"), {"the line", "2 keys"});
  EXPECT_EQ(refused("[[[1]]]"), "");
  expect_contains(refused("[[[[1]]]]"), {"the line", "3 levels"});
  EXPECT_NE(refused(std::string(101, ' ')), "") << "larger than 100 bytes";
}

}  // namespace
}  // namespace dpbench
