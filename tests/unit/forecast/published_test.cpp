// Compares the predictions of `dpbench plan` with published throughputs. Each machine has one rate of computing
// (FLOP/s), fitted to one published throughput.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>

#include "harness/forecast/plan/predict.h"

namespace dpbench::forecast {
namespace {

constexpr double usual_error = 0.15;

struct Row {
  std::string name;
  gpt::Shape shape;
  Layout layout;
  double published;
  // largest accepted relative error; a comment on the measurement gives the reason for a value above usual_error
  double most_off = usual_error;
  // predictions with the same text in this field must be in the order of the published figures; empty: in any order
  std::string order = {};
};

double rows_of(const Layout& layout) {
  return static_cast<double>(layout.rows * layout.micro_batches * layout.size("dp") * layout.size("shard"));
}

// Returns the throughput per GPU in the unit of the paper, such as TFLOP/s or samples per second, from the predicted
// step time.
using Figure = std::function<double(const Row& row, double step_s)>;

double step_s(const Row& row, const Network& network, double flop_per_s) {
  const Machine machine{.speed = constant_speed(flop_per_s, ""), .network = network};
  return time_of(row.shape, gpt::Precision::bfloat16, row.layout, machine).step_s();
}

// Fits the machine's FLOP/s to one published throughput, and compares the predictions of all throughputs. If two
// published figures with the same `order` differ by more than 7 %, the predicted ones must have the same order.
void expect_close(const std::vector<Row>& rows, size_t fitted, const Network& network, const Figure& figure) {
  double low = 1e12, high = 1e16;
  for (int round = 0; round < 100; ++round) {
    const double middle = std::sqrt(low * high);
    (figure(rows[fitted], step_s(rows[fitted], network, middle)) < rows[fitted].published ? low : high) = middle;
  }
  std::printf("  fitted to %s: %.0f TFLOP/s\n", rows[fitted].name.c_str(), low * 1e-12);
  std::vector<double> predicted;
  for (const Row& row : rows) {
    predicted.push_back(figure(row, step_s(row, network, low)));
    const double off = predicted.back() / row.published - 1;
    std::printf("  %-28s published %8.3f, predicted %8.3f, off by %+6.1f %%\n", row.name.c_str(), row.published,
                predicted.back(), 100 * off);
    EXPECT_LE(std::abs(off), row.most_off) << row.name;
  }
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < rows.size(); ++k) {
      const bool compared = !rows[i].order.empty() && rows[i].order == rows[k].order;
      if (!compared || rows[i].published < 1.07 * rows[k].published) continue;
      EXPECT_GT(predicted[i], predicted[k]) << rows[i].name << " is faster than " << rows[k].name;
    }
}

Layout layout_of(const gpt::Shape& shape, const MeshShape& mesh, int64_t batch, int64_t rows) {
  Layout layout{.strategy = "layout", .mesh = mesh, .narrow_activations = true, .rows = rows};
  if (layout.size("shard") > 1) layout.sharding = Sharding::parameters, layout.overlapped = layout.narrow = true;
  layout.micro_batches = batch / layout.size("dp") / layout.size("shard") / rows;
  if (layout.size("pp") > 1) layout.schedule = pipeline::find_family("1f1b");
  if (layout.size("pp") > 1) layout.stage_sizes = spread_blocks(shape, layout);
  return layout;
}

Layout scheduled(const gpt::Shape& shape, Layout layout, const char* family, int stages) {
  layout.schedule = pipeline::find_family(family);
  layout.stages = stages;
  layout.stage_sizes = spread_blocks(shape, layout);
  return layout;
}

// Megatron-LM on A100 (arXiv 2104.04473, table 1): hosts of 8 GPUs, NVLink, 25 GB/s of InfiniBand per GPU. All
// activations are recomputed, the schedule is interleaved, and the published FLOP include the recomputation.
TEST(Published, MegatronThroughputOnUpTo3072GpusIsPredictedAfterFittingToItsModelOf39B) {
  struct Published {
    const char* name;
    int64_t heads, hidden, layers;
    int tp, pp, gpus;
    int64_t batch;
    double tflops;
    const char* order = "size";
    double most_off = usual_error;
  };
  const Network network{{300e9, 5e-6}, {25e9, 10e-6}, 8};
  std::vector<Row> rows;
  // Narrow matrices run slower, but the machine has one rate. So the prediction for the smallest model may be off by
  // more, and the three smallest models and the largest are not compared with the others.
  for (const auto& p : std::vector<Published>{{"1.7 B", 24, 2304, 24, 1, 1, 32, 512, 137, "", 0.2},
                                              {"3.6 B", 32, 3072, 30, 2, 1, 64, 512, 138, ""},
                                              {"7.5 B", 32, 4096, 36, 4, 1, 128, 512, 142, ""},
                                              {"18.4 B", 48, 6144, 40, 8, 1, 256, 1024, 135},
                                              {"39.1 B", 64, 8192, 48, 8, 2, 512, 1536, 138},
                                              {"76.1 B", 80, 10240, 60, 8, 4, 1024, 1792, 140},
                                              {"145.6 B", 96, 12288, 80, 8, 8, 1536, 2304, 148},
                                              {"310.1 B", 128, 16384, 96, 8, 16, 1920, 2160, 155},
                                              {"529.6 B", 128, 20480, 105, 8, 35, 2520, 2520, 163},
                                              {"1008 B", 160, 25600, 128, 8, 64, 3072, 3072, 163, ""}}) {
    const gpt::Shape shape{.layers = p.layers,
                           .hidden = p.hidden,
                           .heads = p.heads,
                           .kv_heads = p.heads,
                           .mlp = 4 * p.hidden,
                           .seq = 2048,
                           .vocab = 51200};
    const MeshShape mesh = without_single({{"dp", p.gpus / p.tp / p.pp}, {"pp", p.pp}, {"tp", p.tp}});
    Layout layout = layout_of(shape, mesh, p.batch, 1);
    const int stages = p.layers / p.pp == 3 ? 3 : 2;
    if (p.pp > 1 && layout.micro_batches % p.pp == 0) layout = scheduled(shape, layout, "interleaved", stages);
    layout.recompute = 1;
    layout.narrow_gradients = true;
    rows.push_back({p.name, shape, layout, p.tflops, p.most_off, p.order});
  }
  expect_close(rows, 4, network, [](const Row& row, double step) {
    const double hidden = static_cast<double>(row.shape.hidden), layers = static_cast<double>(row.shape.layers);
    const double tokens = 2048,
                 batch = static_cast<double>(row.layout.rows * row.layout.micro_batches * row.layout.size("dp"));
    const double flop = 96 * batch * tokens * layers * hidden * hidden *
                        (1 + tokens / (6 * hidden) + static_cast<double>(row.shape.vocab) / (16 * layers * hidden));
    return flop / step / ranks_of(row.layout.mesh) * 1e-12;
  });
}

// Zero-bubble pipelines on A100 (arXiv 2401.10241, table 4): samples per GPU and second, by micro-batches of a step.
// The models run without data or tensor parallelism; a micro-batch has 6, 3, 1 and 1 samples. The paper's figures for
// zb-h1 and zb-h2 are its rows ZB-1p and ZB-2p.
TEST(Published, ThroughputOfZeroBubbleSchedulesIsPredictedAfterFittingToOneMeasurementOf1f1b) {
  struct Model {
    const char* name;
    int64_t layers, heads, hidden;
    int ranks;
    int64_t rows;
    std::vector<int> micro_batches;
    std::vector<double> zb_2p, zb_1p, one_f_one_b, interleaved;
    double most_off_1f1b = usual_error, most_off_zb_1p = usual_error;
  };
  // The figures of the smallest model are predicted too high, because its head costs 1.7 layers and the last rank of
  // the paper has two layers besides. Here the blocks are balanced, so the last rank has one.
  const std::vector<Model> models = {{"1.5 B",
                                      22,
                                      24,
                                      2304,
                                      8,
                                      6,
                                      {24, 32, 64},
                                      {14.5, 14.8, 14.9},
                                      {12.9, 13.4, 14.2},
                                      {11.8, 12.5, 13.6},
                                      {13.1, 13.4, 13.9},
                                      0.16,
                                      0.24},
                                     {"6.2 B",
                                      30,
                                      32,
                                      4096,
                                      8,
                                      3,
                                      {24, 32, 64},
                                      {4.32, 4.35, 4.39},
                                      {3.88, 4.00, 4.20},
                                      {3.50, 3.70, 4.03},
                                      {4.01, 4.08, 4.19}},
                                     {"14.6 B",
                                      46,
                                      40,
                                      5120,
                                      16,
                                      1,
                                      {48, 64, 128},
                                      {1.81, 1.83, 1.85},
                                      {1.61, 1.67, 1.76},
                                      {1.40, 1.49, 1.64},
                                      {1.54, 1.59, 1.66}},
                                     {"28.3 B",
                                      62,
                                      48,
                                      6144,
                                      32,
                                      1,
                                      {96, 128, 256},
                                      {.99, 1.00, 1.00},
                                      {.87, .90, .96},
                                      {.76, .80, .88},
                                      {.82, .85, .90}}};
  const Network network{{300e9, 5e-6}, {25e9, 10e-6}, 8};
  std::vector<Row> rows;
  for (const Model& m : models)
    for (size_t i = 0; i < m.micro_batches.size(); ++i) {
      const gpt::Shape shape{.layers = m.layers,
                             .hidden = m.hidden,
                             .heads = m.heads,
                             .kv_heads = m.heads,
                             .mlp = 4 * m.hidden,
                             .seq = 1024,
                             .vocab = 50304,
                             // the authors' published training script does not tie the embedding to the head
                             .tied = false};
      const Layout base = layout_of(shape, {{"pp", m.ranks}}, m.rows * m.micro_batches[i], m.rows);
      const std::string of = std::string(m.name) + " m=" + std::to_string(m.micro_batches[i]);
      const auto add = [&](const char* family, int stages, double published, double most_off, bool ordered) {
        rows.push_back({std::string(family) + " " + of, shape, scheduled(shape, base, family, stages), published,
                        most_off, ordered ? of : ""});
      };
      // The head of the smallest model costs as much as 1.7 layers, and is a stage of its own in an interleaved
      // schedule. So the interleaved throughput of this model is not compared with the throughputs of other schedules.
      const bool small = m.hidden == models.front().hidden;
      add("1f1b", 1, m.one_f_one_b[i], m.most_off_1f1b, true);
      add("interleaved", static_cast<int>(m.layers + 2) / m.ranks, m.interleaved[i], usual_error, !small);
      add("zb-h1", 1, m.zb_1p[i], m.most_off_zb_1p, true);
      // In the paper, a rank begins a step before other ranks have ended the previous one. The prediction does not
      // model this, so the throughput of zb-h2 is not compared with that of other schedules.
      add("zb-h2", 1, m.zb_2p[i], usual_error, false);
    }
  // index of the measurement to which the rate is fitted: 1f1b of 14.6 B with 48 micro-batches
  constexpr size_t fitted = 24;
  expect_close(rows, fitted, network,
               [](const Row& row, double step) { return rows_of(row.layout) / step / ranks_of(row.layout.mesh); });
}

double model_tflops(const Row& row, double step) {
  return row.shape.flop_per_row() * rows_of(row.layout) / step / ranks_of(row.layout.mesh) * 1e-12;
}

double tokens_per_gpu(const Row& row, double step) {
  return static_cast<double>(row.shape.seq) * rows_of(row.layout) / step / ranks_of(row.layout.mesh);
}

gpt::Shape llama(int64_t layers, int64_t hidden, int64_t heads, int64_t mlp, int64_t seq) {
  return {.style = gpt::Style::llama,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = 8,
          .mlp = mlp,
          .seq = seq,
          .vocab = 128256,
          .tied = false};
}

const Network h100{{450e9, 3e-6}, {50e9, 10e-6}, 8};

// Llama 3 405B on H100 (arXiv 2407.21783, table 4): BF16 TFLOP/s per GPU, a batch of 16 Mi tokens. Gradients stay whole
// until the end of the step, and units stay gathered.
TEST(Published, Llama405bThroughputOn16384GpusIsPredictedAfterFittingTo8192Gpus) {
  const auto row = [](const char* name, int dp, int cp, int64_t seq, double tflops, double most_off = usual_error) {
    const gpt::Shape shape = llama(126, 16384, 128, 53248, seq);
    const MeshShape mesh = without_single({{"shard", dp}, {"cp", cp}, {"pp", 16}, {"tp", 8}});
    Layout layout = layout_of(shape, mesh, (int64_t{16} << 20) / seq, 1);
    layout.reshard = layout.narrow = false;
    layout.narrow_gradients = true;
    const bool interleaved = layout.micro_batches % 16 == 0;
    // Attention is most of the operations of 131,072 tokens and runs slower than the products, so this figure is
    // predicted too high and is not compared with the others.
    return Row{name,   shape,    scheduled(shape, layout, interleaved ? "interleaved" : "1f1b", interleaved ? 8 : 1),
               tflops, most_off, cp == 1 ? "dp" : ""};
  };
  expect_close({row("8,192 GPUs", 64, 1, 8192, 430), row("16,384 GPUs", 128, 1, 8192, 400),
                row("16,384 GPUs, 131,072 tokens", 8, 16, 131072, 380, 0.16)},
               0, h100, model_tflops);
}

// torchtitan on H100 (docs/performance.md of December 2024): tokens per second and GPU.
TEST(Published, TorchtitanFsdpThroughputOn128GpusIsPredictedAfterFittingTo8Gpus) {
  const gpt::Shape shape = llama(32, 4096, 32, 14336, 8192);
  const auto row = [&](const char* name, int gpus, double published) {
    Layout layout = layout_of(shape, {{"shard", gpus}}, 2 * gpus, 2);
    return Row{name, shape, layout, published};
  };
  expect_close({row("8B, 8 GPUs", 8, 5762), row("8B, 128 GPUs", 128, 5605)}, 0, h100, tokens_per_gpu);
}

// From cp=4 (context parallelism) on, the published steps take up to 1.5 times as long as their operation counts
// predict; 1.8 times with pipelines. The exchange of keys and values is too short to be the reason.
TEST(Published, TorchtitanThroughputWithContextParallelismIsPredictedForUpTo65536Tokens) {
  std::vector<Row> rows;
  const auto add = [&](const char* name, int shard, int cp, double published, double most_off = usual_error) {
    const gpt::Shape shape = llama(32, 4096, 32, 14336, int64_t{32768} * cp);
    const MeshShape mesh = without_single({{"shard", shard}, {"cp", cp}});
    Layout layout = layout_of(shape, mesh, shard, 1);
    layout.recompute = 1;
    rows.push_back({name, shape, layout, published, most_off, "cp"});
  };
  add("8B, 32,768 tokens", 8, 1, 3890);
  add("8B, 65,536 tokens, cp=2", 4, 2, 2540);
  add("8B, 131,072 tokens, cp=4", 2, 4, 1071, 0.4);
  add("8B, 262,144 tokens, cp=8", 1, 8, 548, 0.5);
  expect_close(rows, 0, h100, tokens_per_gpu);
}

TEST(Published, TorchtitanThroughputWithTensorAndPipelineParallelismIsPredictedAfterFittingToLlama70b) {
  std::vector<Row> rows;
  const gpt::Shape big = llama(80, 8192, 64, 28672, 8192), biggest = llama(126, 16384, 128, 53248, 8192);
  Layout two = layout_of(big, {{"shard", 32}, {"tp", 8}}, 512, 16);
  two.recompute = 1;
  rows.push_back({"70B, FSDP 32, TP 8", big, two, 829});
  Layout three = layout_of(biggest, {{"shard", 8}, {"pp", 8}, {"tp", 8}}, 256, 1);
  three.recompute = 1;
  rows.push_back({"405B 1F1B", biggest, three, 100, usual_error, "schedule"});
  rows.push_back(
      {"405B interleaved", biggest, scheduled(biggest, three, "interleaved", 2), 128, usual_error, "schedule"});
  const auto add = [&](const char* name, int shard, int cp, double published, double most_off = usual_error) {
    const gpt::Shape shape = llama(126, 16384, 128, 53248, int64_t{32768} * cp);
    const MeshShape mesh = without_single({{"shard", shard}, {"cp", cp}, {"pp", 8}, {"tp", 8}});
    Layout layout = layout_of(shape, mesh, 8 * shard, 1);
    layout.recompute = 1;
    rows.push_back({name, shape, layout, published, most_off, "cp"});
  };
  add("405B 32,768 tokens", 8, 1, 76);
  add("405B 65,536 tokens, cp=2", 4, 2, 47, 0.3);
  add("405B 131,072 tokens, cp=4", 2, 4, 31, 0.45);
  add("405B 262,144 tokens, cp=8", 1, 8, 16, 0.8);
  expect_close(rows, 0, h100, tokens_per_gpu);
}

}  // namespace
}  // namespace dpbench::forecast
