#include "harness/conform/evidence/evidence.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <ATen/ATen.h>

#include "workloads/base/error.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

at::Tensor plain(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU).contiguous(); }

template <class T>
constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// visit() passes each field of a struct to `archive`, which either writes or reads it. One list of fields serves both,
// so they have the same order.
template <class Archive>
void visit(Archive& archive, Collective& collective) {
  archive(collective.op), archive(collective.reduction), archive(collective.bytes), archive(collective.floating);
  archive(collective.axis), archive(collective.by_accessor);
  archive(collective.input), archive(collective.output);
}

template <class Archive>
void visit(Archive& archive, StepEvidence& step) {
  archive(step.ids), archive(step.output), archive(step.loss), archive(step.gradients), archive(step.parameters);
  archive(step.buffers), archive(step.state), archive(step.collectives), archive(step.modified_input);
  archive(step.wrong_strides);
}

template <class Archive>
void visit(Archive& archive, Evaluation& evaluation) {
  archive(evaluation.step), archive(evaluation.ids), archive(evaluation.output), archive(evaluation.collectives);
  archive(evaluation.buffers);
}

template <class Archive>
void visit(Archive& archive, Evidence& evidence) {
  archive(evidence.rank), archive(evidence.parameters), archive(evidence.buffers), archive(evidence.state);
  archive(evidence.steps_before), archive(evidence.steps), archive(evidence.evaluations), archive(evidence.error),
      archive(evidence.refusal);
  archive(evidence.interrupted), archive(evidence.echo), archive(evidence.last_parameters);
  archive(evidence.last_buffers), archive(evidence.last_state), archive(evidence.live_parameter_bytes);
  archive(evidence.live_gather_bytes), archive(evidence.stored_parameter_bytes);
  archive(evidence.wrong_type), archive(evidence.typed);
}

template <class Archive>
void visit(Archive& archive, std::pair<std::string, at::Tensor>& named) {
  archive(named.first), archive(named.second);
}

class Writer {
 public:
  explicit Writer(const std::vector<uint64_t>& known) : known_(known) {}
  std::string bytes;

  template <class T>
    requires is_number<T>
  void operator()(T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void operator()(std::string& text) {
    auto size = text.size();
    (*this)(size);
    bytes += text;
  }
  template <class T>
  void operator()(std::vector<T>& items) {
    auto size = items.size();
    (*this)(size);
    for (auto& item : items) (*this)(item);
  }
  void operator()(at::Tensor& tensor) {
    enum class Kind : char { none, known, whole };
    if (!tensor.defined()) return put(Kind::none);
    auto hash = content_hash(tensor);
    if (std::binary_search(known_.begin(), known_.end(), hash)) return put(Kind::known), (*this)(hash);
    put(Kind::whole);
    const auto flat = plain(tensor);
    auto type = static_cast<int>(flat.scalar_type());
    auto sizes = flat.sizes().vec();
    (*this)(type), (*this)(sizes);
    bytes.append(static_cast<const char*>(flat.data_ptr()), flat.nbytes());
  }
  template <class T>
    requires(!is_number<T>)
  void operator()(T& composite) {
    visit(*this, composite);
  }

 private:
  template <class Kind>
  void put(Kind kind) {
    bytes.push_back(static_cast<char>(kind));
  }
  const std::vector<uint64_t>& known_;
};

class Reader {
 public:
  Reader(const std::string& bytes, const TensorPool& pool) : bytes_(bytes), pool_(pool) {}
  bool at_end() const { return at_ == bytes_.size(); }

  template <class T>
    requires is_number<T>
  void operator()(T& value) {
    std::memcpy(&value, take(sizeof value), sizeof value);
  }
  void operator()(std::string& text) {
    size_t size = 0;
    (*this)(size);
    text.assign(take(size), size);
  }
  template <class T>
  void operator()(std::vector<T>& items) {
    size_t size = 0;
    (*this)(size);
    check(size <= bytes_.size(), "evidence is damaged: a list is longer than the message");
    items.resize(size);
    for (auto& item : items) (*this)(item);
  }
  void operator()(at::Tensor& tensor) {
    const char kind = *take(1);
    if (kind == 0) return;
    if (kind == 1) {
      uint64_t hash = 0;
      (*this)(hash);
      tensor = pool_.at(hash);
      return;
    }
    int type = 0;
    std::vector<int64_t> sizes;
    (*this)(type), (*this)(sizes);
    tensor = at::empty(sizes, at::TensorOptions().dtype(static_cast<at::ScalarType>(type)));
    const size_t size = tensor.nbytes();
    std::memcpy(tensor.data_ptr(), take(size), size);
  }
  template <class T>
    requires(!is_number<T>)
  void operator()(T& composite) {
    visit(*this, composite);
  }

 private:
  const char* take(size_t size) {
    check(size <= bytes_.size() - at_, "evidence is damaged: it ends too early");
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  const std::string& bytes_;
  const TensorPool& pool_;
  size_t at_ = 0;
};

// A visitor of all fields of a rank's evidence, which collects their tensors.
struct Collector {
  TensorPool pool;
  template <class T>
    requires is_number<T>
  void operator()(T&) {}
  void operator()(std::string&) {}
  template <class T>
  void operator()(std::vector<T>& items) {
    for (auto& item : items) (*this)(item);
  }
  void operator()(at::Tensor& tensor) {
    if (tensor.defined()) pool.emplace(content_hash(tensor), tensor);
  }
  template <class T>
    requires(!is_number<T>)
  void operator()(T& composite) {
    visit(*this, composite);
  }
};

}  // namespace

uint64_t content_hash(const at::Tensor& tensor) {
  const auto flat = plain(tensor);
  const auto type = static_cast<int64_t>(flat.scalar_type());
  uint64_t hash = fnv1a_words(&type, sizeof type);
  for (const int64_t size : flat.sizes()) hash = fnv1a_words(&size, sizeof size, hash);
  return fnv1a_words(flat.data_ptr(), flat.nbytes(), hash);
}

TensorPool pool_of(const Evidence& evidence) {
  Collector collector;
  Evidence copy = evidence;  // copying the evidence is cheap: the copy shares its tensors
  collector(copy);
  return std::move(collector.pool);
}

std::string to_bytes(const Evidence& evidence, const std::vector<uint64_t>& known) {
  Writer writer(known);
  Evidence copy = evidence;
  writer(copy);
  return std::move(writer.bytes);
}

Evidence from_bytes(const std::string& bytes, const TensorPool& pool) {
  Reader reader(bytes, pool);
  Evidence evidence;
  reader(evidence);
  check(reader.at_end(), "evidence is damaged: it has extra bytes at the end");
  return evidence;
}

bool is_in(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace dpbench
