#include "harness/worker/train/train_lines.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace dpbench {
namespace {

std::string devices(const DeviceCount& count) {
  return std::to_string(count.world) + (count.device == Device::cuda ? " GPUs" : " devices");
}

std::string joined(std::span<const int64_t> sizes, char open, char close) {
  std::string text(1, open);
  for (const int64_t size : sizes) text.append(text.size() == 1 ? "" : ", ").append(std::to_string(size));
  return text.append(1, close);
}

std::string bracketed(std::span<const int64_t> sizes) { return joined(sizes, '[', ']'); }

}  // namespace

std::vector<std::string> tutorial_greeting(const DeviceCount& count) {
  if (count.world == 1) return {};
  return {"Let's use " + devices(count) + "!"};
}

std::string in_model_line(std::span<const int64_t> input, std::span<const int64_t> output) {
  return "In Model: input size " + bracketed(input) + " output size " + bracketed(output);
}

std::string outside_line(std::span<const int64_t> input, std::span<const int64_t> output) {
  return "Outside: input size " + bracketed(input) + " output_size " + bracketed(output);
}

std::string memo_line(const EpochLoss& loss) {
  char text[400];
  std::snprintf(text, sizeof text, "%3lld: %.4f", static_cast<long long>(loss.epoch), loss.total);
  return text;
}

std::vector<std::string> guide_greeting(const DeviceCount& count, int64_t samples, std::span<const int64_t> input) {
  std::vector<int64_t> shape(input.begin(), input.end());
  if (!shape.empty()) shape[0] = samples;
  // The Keras guide prints shapes with the channels last.
  if (shape.size() == 4) shape = {shape[0], shape[2], shape[3], shape[1]};
  return {"Running on " + devices(count), "x_train shape: " + joined(shape, '(', ')')};
}

std::string guide_line(const EpochLoss& loss) {
  return "Epoch " + std::to_string(loss.epoch + 1) + "/" + std::to_string(loss.epochs) +
         ", Loss: " + python_float(loss.mean);
}

std::string python_float(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  char text[400];
  const auto form = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::string shown(text, std::to_chars(text, text + sizeof text, value, form).ptr);
  if (!scientific && shown.find('.') == std::string::npos) shown += ".0";
  return shown;
}

}  // namespace dpbench
