#include "workloads/data/image_set.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "workloads/base/error.h"
#include "workloads/base/hash.h"
#include "workloads/data/idx.h"

namespace dpbench {
namespace {

enum State : uint8_t { untouched, being_made, ready };
constexpr const char* fetch_hint = "; fetch them again, or leave --data out for drawn digits";
// Longest wait for an image that another rank is generating, because that rank may have died.
constexpr auto claim_timeout = std::chrono::milliseconds(20);

std::atomic_ref<uint8_t> state_of(uint8_t* states, int64_t row) { return std::atomic_ref<uint8_t>(states[row]); }

// Returns the name of the shared-memory file for the images of an IDX file. Different paths give different names.
std::string shared_name(const std::string& path) {
  uint64_t hash = 0;
  for (const char c : std::filesystem::weakly_canonical(path).string()) hash = mix64(hash ^ static_cast<uint8_t>(c));
  return "idx-" + std::to_string(hash) + ".rows";
}

void check_labels(std::span<const uint8_t> labels, const std::string& path) {
  const auto wrong = std::ranges::find_if(labels, [](uint8_t label) { return label > 9; });
  if (wrong == labels.end()) return;
  throw UsageError(path + ": label " + std::to_string(*wrong) + " of sample " + std::to_string(wrong - labels.begin()) +
                   ", expected 0 to 9" + fetch_hint);
}

void check_pair(const IdxFile& images, const IdxFile& labels) {
  const auto& sizes = images.sizes();
  if (sizes[1] != image_side || sizes[2] != image_side)
    throw UsageError(images.path() + ": images of " + std::to_string(sizes[1]) + " x " + std::to_string(sizes[2]) +
                     ", expected 28 x 28" + fetch_hint);
  if (sizes[0] != labels.sizes()[0] || sizes[0] == 0)
    throw UsageError(labels.path() + ": " + std::to_string(labels.sizes()[0]) + " labels for the " +
                     std::to_string(sizes[0]) + " images of " + images.path() +
                     ", expected equally many, at least one" + fetch_hint);
}

}  // namespace

ImageSet::ImageSet(const std::string& shared_dir, const std::string& name, int64_t images)
    : images_(images),
      memory_(std::make_unique<Mapping>(shared_dir, name, static_cast<size_t>(images * (2 + image_bytes)))) {
  states_ = reinterpret_cast<uint8_t*>(memory_->data());
  labels_ = states_ + images;
  pixels_ = labels_ + images;
}

ImageSet ImageSet::made(const std::string& shared_dir, const std::string& name, int64_t images, Make make) {
  ImageSet set(shared_dir, name, images);
  set.memory_->reserve(0, static_cast<size_t>(2 * images));
  set.make_ = std::move(make);
  return set;
}

ImageSet ImageSet::read(const std::string& shared_dir, const std::string& images, const std::string& labels) {
  IdxFile image_file(images, 3), label_file(labels, 1);
  check_pair(image_file, label_file);
  const int64_t count = image_file.sizes()[0];
  ImageSet set(shared_dir, shared_name(images), count);
  const Mapping::Lock lock(*set.memory_);
  if (set.states_[count - 1] == ready) return set;
  set.memory_->reserve(0, static_cast<size_t>(count * (2 + image_bytes)));
  label_file.read({set.labels_, static_cast<size_t>(count)});
  check_labels({set.labels_, static_cast<size_t>(count)}, labels);
  image_file.read({set.pixels_, static_cast<size_t>(count * image_bytes)});
  std::fill_n(set.states_, count, ready);
  return set;
}

int64_t ImageSet::require(const std::string& images, const std::string& labels) {
  IdxFile image_file(images, 3), label_file(labels, 1);
  check_pair(image_file, label_file);
  std::vector<uint8_t> values(static_cast<size_t>(label_file.bytes()));
  label_file.read(values);
  check_labels(values, labels);
  image_file.skim();
  return image_file.sizes()[0];
}

void ImageSet::ensure(std::span<const int64_t> ids) const {
  std::vector<int64_t> claimed_by_others;
  for (const int64_t id : ids) {
    check(id >= 0 && id < images_, "sample " + std::to_string(id) + " of a set of " + std::to_string(images_));
    uint8_t state = state_of(states_, id).load(std::memory_order_acquire);
    if (state == ready) continue;
    if (state == untouched && state_of(states_, id).compare_exchange_strong(state, being_made))
      make_row(id);
    else if (state == being_made)
      claimed_by_others.push_back(id);
  }
  const auto limit = std::chrono::steady_clock::now() + claim_timeout;
  for (const int64_t id : claimed_by_others) {
    while (state_of(states_, id).load(std::memory_order_acquire) != ready && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    // Another rank began to generate this image, but has died or is very slow. So this rank generates the image too;
    // both would write the same bytes.
    if (state_of(states_, id).load(std::memory_order_acquire) != ready) make_row(id);
  }
}

void ImageSet::make_row(int64_t row) const {
  memory_->reserve(static_cast<size_t>(pixels_ - states_ + row * image_bytes), image_bytes);
  make_(row, {pixels_ + row * image_bytes, static_cast<size_t>(image_bytes)}, labels_[row]);
  state_of(states_, row).store(ready, std::memory_order_release);
}

}  // namespace dpbench
