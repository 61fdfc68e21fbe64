// Fuzzes the messages between the front (the dpbench process) and its workers, in both directions. The first byte
// selects the rank that sends first, the expected answer and whether the ranks were ready before.
#include "harness/front/launch/case_watch.h"
#include "tests/fuzz/fuzz.h"

using namespace dpbench;

namespace {

constexpr Event answers[] = {Event::ran, Event::checked, Event::trained};

void as_front(uint8_t how, std::string_view text) {
  CaseWatch watch("c", answers[how / 8 % 3], 2, 30, how % 2 != 0, 0, [](const Json& event) { event.dump(); });
  int rank = how / 2 % 2;
  for (size_t from = 0; from < text.size(); rank = 1 - rank) {
    const size_t to = std::min(text.find('\n', from), text.size());
    watch.on_line(rank, std::string(text.substr(from, to - from)), 1);
    from = to + 1;
  }
  watch.on_death(0, 0, 2);
  watch.on_death(1, 0, 2);
  const auto verdict = watch.verdict(100);
  fuzz::require(verdict.has_value());
  fuzz::require(verdict->reason.size() <= 4096);
}

void as_worker(std::string_view text) {
  const Json command = parse_json(std::string(text), "what the front sent");
  if (!command.is_object()) return;
  for (const auto& [key, value] : command.items()) {
    if (key == "case") to_json(case_from_json(value)).dump();
    if (key == "sampling") to_json(sampling_from_json(value)).dump();
    if (key == "train") to_json(train_options_from_json(value)).dump();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  as_front(data[0], fuzz::text_of(data + 1, size - 1));
  fuzz::accepted([&] { as_worker(fuzz::text_of(data + 1, size - 1)); });
  return 0;
}
